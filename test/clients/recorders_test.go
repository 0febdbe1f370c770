package clients

import (
	"context"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/eventquota/eventquota/test/cli"
)

// recorder is a recorder of client-go, with its default options.
type recorder struct {
	// emit hands an occurrence to the recorder.
	emit func(about *corev1.ObjectReference, o occurrence)
	// answered gets a value for each answer after which the recorder sends nothing more about an occurrence.
	answered chan struct{}
}

func (r *recorder) publish(ctx context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		r.emit(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: o.object, UID: types.UID(o.object)}, o)
		select {
		case <-r.answered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watch returns the configuration of the recorder's client.
func (r *recorder) watch(config *rest.Config) *rest.Config {
	r.answered = make(chan struct{}, 1000)
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			// A recorder creates an Event that it could not patch.
			if err == nil && (request.Method == http.MethodPost || request.Method == http.MethodPatch && response.StatusCode != http.StatusNotFound) {
				r.answered <- struct{}{}
			}
			return response, err
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func startCoreRecorder(s *session) (client, error) {
	r := &recorder{}
	c, err := kubernetes.NewForConfig(r.watch(s.config))
	if err != nil {
		return nil, err
	}
	b := record.NewBroadcaster()
	s.Cleanup(b.Shutdown)
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events("")})
	out := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "core"})
	r.emit = func(about *corev1.ObjectReference, o occurrence) {
		out.Event(about, corev1.EventTypeNormal, o.reason, o.message)
	}
	return r, nil
}

func startSeriesRecorder(s *session) (client, error) {
	r := &recorder{}
	c, err := kubernetes.NewForConfig(r.watch(s.config))
	if err != nil {
		return nil, err
	}
	b := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.EventsV1()})
	s.Cleanup(b.Shutdown)
	if err := b.StartRecordingToSinkWithContext(s.Context()); err != nil {
		return nil, err
	}
	out := b.NewRecorder(scheme.Scheme, "series")
	r.emit = func(about *corev1.ObjectReference, o occurrence) { emitSeries(out, about, o) }
	return r, nil
}

// emitSeries publishes every second Event as a series. A recorder of events.k8s.io counts further repeats itself for minutes, so the object
// changes.
func emitSeries(out events.EventRecorder, about *corev1.ObjectReference, o occurrence) {
	about.ResourceVersion = strconv.Itoa(1 + o.n/2)
	out.Eventf(about, nil, corev1.EventTypeNormal, o.reason, "Test", "%s", o.message)
}

func startManagerCore(s *session) (client, error) {
	r := &recorder{}
	m, err := r.startManager(s)
	if err != nil {
		return nil, err
	}
	out := m.GetEventRecorderFor("manager-core") //nolint:staticcheck // most controllers still use it
	r.emit = func(about *corev1.ObjectReference, o occurrence) {
		out.Event(about, corev1.EventTypeNormal, o.reason, o.message)
	}
	return r, nil
}

func startManagerSeries(s *session) (client, error) {
	r := &recorder{}
	m, err := r.startManager(s)
	if err != nil {
		return nil, err
	}
	out := m.GetEventRecorder("manager-series")
	r.emit = func(about *corev1.ObjectReference, o occurrence) { emitSeries(out, about, o) }
	return r, nil
}

// startManager starts a manager of controller-runtime, which stops when the test ends.
func (r *recorder) startManager(s *session) (manager.Manager, error) {
	m, err := manager.New(r.watch(s.config), manager.Options{
		Logger: logr.New(recorderLog), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	<-m.Elected()
	return m, nil
}

// waitRecorders waits until no recorder of this process sends an Event or waits to send it again.
func (e *env) waitRecorders() {
	e.Helper()
	stacks := make([]byte, 16<<20)
	cli.Eventually(e.T, "all recorders have nothing to send", func() bool {
		running := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(running, ").recordToSink(") && !strings.Contains(running, ").attemptRecording(")
	})
}

// moduleVersion returns a function that returns the version of a module that this one requires.
func moduleVersion(module string) func(*env) (string, error) {
	return func(e *env) (string, error) {
		out, err := exec.CommandContext(e.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
		return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), err
	}
}
