package prioritylevels

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
	requests requestCounts
	inFlight int
}

// requestCounts is what a recorder has asked of the API server so far.
type requestCounts struct {
	answers     map[int]int // requests that were answered, by status
	maxInFlight int         // requests in flight at a time
	connections int
	started     int // Events that a recorder of events.k8s.io has begun to send, each by a goroutine of its own
	retryAfter  int // seconds, the longest
	lines       int // that client-go has logged unasked
	abandoned   int // Events of which it logged that it does not try again
}

// startLegacy starts a recorder of tools/record, with its default limits. It stops with the test.
func startLegacy(t *testing.T, n *smallLevel, name string) *recorder {
	t.Helper()
	r, client, logger := newRecorder(t, n, name)
	b := record.NewBroadcaster(record.WithContext(klog.NewContext(t.Context(), logger)))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	out := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name}).WithLogger(logger)
	r.record = func(about *corev1.Pod, message string) { out.Event(about, corev1.EventTypeWarning, "BackOff", message) }
	return r
}

// startSeries starts a recorder of tools/events. It stops with the test.
func startSeries(t *testing.T, n *smallLevel, name string) *recorder {
	t.Helper()
	r, client, logger := newRecorder(t, n, name)
	b := events.NewBroadcaster(&countingSink{events.EventSinkImpl{Interface: client.EventsV1()}, r})
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

func newRecorder(t *testing.T, n *smallLevel, name string) (*recorder, kubernetes.Interface, logr.Logger) {
	t.Helper()
	r := &recorder{user: "system:serviceaccount:" + quietNamespace + ":" + name, requests: requestCounts{answers: map[int]int{}}}
	config, _, err := n.User(r.user, "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		r.count(func() { r.requests.connections++ })
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return &countingTransport{to, r} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return r, client, funcr.New(func(_, line string) {
		r.count(func() {
			r.requests.lines++
			if strings.Contains(line, "Server rejected event (will not retry!)") {
				r.requests.abandoned++
			}
		})
	}, funcr.Options{})
}

// warn records the Warning of a serial number, about a pod of its own: no two are similar.
func (r *recorder) warn(serial int) {
	number := strconv.Itoa(serial)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: quietNamespace, Name: "web-" + number, UID: types.UID("uid-" + number)}}
	r.record(pod, r.message(number))
}

// message is that of the Warning of a serial number.
func (r *recorder) message(number string) string {
	return fmt.Sprintf("Back-off restarting failed container, says %s of pod %s", r.user, number)
}

// snapshot is what the recorder has asked so far.
func (r *recorder) snapshot() (a requestCounts) {
	r.count(func() {
		a = r.requests
		a.answers = maps.Clone(a.answers)
	})
	return a
}

func (r *recorder) count(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

// countingSink counts the Events that a recorder sends, where counted counts the tries.
type countingSink struct {
	events.EventSinkImpl
	r *recorder
}

// Create implements events.EventSink.
func (s *countingSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.r.count(func() { s.r.requests.started++ })
	return s.EventSinkImpl.Create(ctx, event)
}

// countingTransport counts the requests of a recorder.
type countingTransport struct {
	to http.RoundTripper
	r  *recorder
}

// RoundTrip implements http.RoundTripper.
func (c *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r := c.r
	r.count(func() {
		r.inFlight++
		r.requests.maxInFlight = max(r.requests.maxInFlight, r.inFlight)
	})
	response, err := c.to.RoundTrip(request)
	r.count(func() {
		r.inFlight--
		if err != nil {
			return
		}
		r.requests.answers[response.StatusCode]++
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // without one, 0
		r.requests.retryAfter = max(r.requests.retryAfter, seconds)
	})
	return response, err
}
