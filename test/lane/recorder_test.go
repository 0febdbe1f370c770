package lane

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// recorder is one of client-go's recorders, of a client without a rate limit of its own, and what it asks of the API server.
type recorder struct {
	user   string
	record func(about *corev1.Pod, message string)

	mu       sync.Mutex
	asked    asked
	inFlight int
}

// asked is what a recorder has asked of the API server so far.
type asked struct {
	answers     map[int]int // requests that were answered, by status
	most        int         // requests in flight at a time
	connections int
	begun       int // Events that a recorder of events.k8s.io has begun to send, each by a goroutine of its own
	retryAfter  int // seconds, the longest
	lines       int // that client-go has logged unasked
	givenUp     int // Events of which it logged that it does not try again
}

// startLegacy starts a recorder of tools/record, with its default limits. It stops with the test.
func startLegacy(t *testing.T, n *narrow, name string) *recorder {
	t.Helper()
	r, client, logger := newRecorder(t, n, name)
	b := record.NewBroadcaster(record.WithContext(klog.NewContext(t.Context(), logger)))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	out := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name}).WithLogger(logger)
	r.record = func(about *corev1.Pod, message string) { out.Event(about, corev1.EventTypeWarning, "BackOff", message) }
	return r
}

// startSeries starts a recorder of tools/events. It stops with the test.
func startSeries(t *testing.T, n *narrow, name string) *recorder {
	t.Helper()
	r, client, logger := newRecorder(t, n, name)
	b := events.NewBroadcaster(&sink{events.EventSinkImpl{Interface: client.EventsV1()}, r})
	if err := b.StartRecordingToSinkWithContext(klog.NewContext(t.Context(), logger)); err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(t.Context(), b.Shutdown)
	out := b.NewRecorder(scheme.Scheme, name).WithLogger(logger)
	r.record = func(about *corev1.Pod, message string) {
		out.Eventf(about, nil, corev1.EventTypeWarning, "BackOff", "Restart", "%s", message)
	}
	return r
}

func newRecorder(t *testing.T, n *narrow, name string) (*recorder, kubernetes.Interface, logr.Logger) {
	t.Helper()
	r := &recorder{user: "system:serviceaccount:" + quiet + ":" + name, asked: asked{answers: map[int]int{}}}
	config, _, err := n.User(r.user, "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		r.count(func() { r.asked.connections++ })
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return &counted{to, r} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return r, client, funcr.New(func(_, line string) {
		r.count(func() {
			r.asked.lines++
			if strings.Contains(line, "Server rejected event (will not retry!)") {
				r.asked.givenUp++
			}
		})
	}, funcr.Options{})
}

// warn records the Warning of a serial number, about a pod of its own: no two are similar.
func (r *recorder) warn(serial int) {
	number := strconv.Itoa(serial)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: quiet, Name: "web-" + number, UID: types.UID("uid-" + number)}}
	r.record(pod, r.message(number))
}

// message is that of the Warning of a serial number.
func (r *recorder) message(number string) string {
	return fmt.Sprintf("Back-off restarting failed container, says %s of pod %s", r.user, number)
}

// sofar is what the recorder has asked so far.
func (r *recorder) sofar() (a asked) {
	r.count(func() {
		a = r.asked
		a.answers = maps.Clone(a.answers)
	})
	return a
}

func (r *recorder) count(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

// sink counts the Events that a recorder sends, where counted counts the tries.
type sink struct {
	events.EventSinkImpl
	r *recorder
}

// Create implements events.EventSink.
func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.r.count(func() { s.r.asked.begun++ })
	return s.EventSinkImpl.Create(ctx, event)
}

// counted counts the requests of a recorder.
type counted struct {
	to http.RoundTripper
	r  *recorder
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	r := c.r
	r.count(func() {
		r.inFlight++
		r.asked.most = max(r.asked.most, r.inFlight)
	})
	response, err := c.to.RoundTrip(request)
	r.count(func() {
		r.inFlight--
		if err != nil {
			return
		}
		r.asked.answers[response.StatusCode]++
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // without one, 0
		r.asked.retryAfter = max(r.asked.retryAfter, seconds)
	})
	return response, err
}
