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

// recorder is a recorder of client-go whose client has no rate limit. It counts its requests to the API server.
type recorder struct {
	user   string
	record func(about *corev1.Pod, message string)

	mu       sync.Mutex
	requests requestCounts
	inFlight int
}

// requestCounts counts the requests and log lines of a recorder.
type requestCounts struct {
	answers     map[int]int // answered requests by status
	maxInFlight int         // most concurrent requests
	connections int
	started     int // Events that an events.k8s.io recorder has started to send, each in its own goroutine
	retryAfter  int // longest Retry-After, in seconds
	lines       int // log lines of client-go at its default verbosity
	abandoned   int // Events that the recorder has given up, according to its log
}

// startLegacy starts a recorder of tools/record with its default limits. The recorder stops at the end of the test.
func startLegacy(t *testing.T, c *smallLevelCluster, name string) *recorder {
	t.Helper()
	r, client, logger := newRecorder(t, c, name)
	b := record.NewBroadcaster(record.WithContext(klog.NewContext(t.Context(), logger)))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	out := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name}).WithLogger(logger)
	r.record = func(about *corev1.Pod, message string) { out.Event(about, corev1.EventTypeWarning, "BackOff", message) }
	return r
}

// startSeries starts a recorder of tools/events. The recorder stops at the end of the test.
func startSeries(t *testing.T, c *smallLevelCluster, name string) *recorder {
	t.Helper()
	r, client, logger := newRecorder(t, c, name)
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

// newRecorder returns a recorder that cannot record yet, and the client and the logger for it.
func newRecorder(t *testing.T, c *smallLevelCluster, name string) (*recorder, kubernetes.Interface, logr.Logger) {
	t.Helper()
	r := &recorder{user: "system:serviceaccount:" + quietNamespace + ":" + name, requests: requestCounts{answers: map[int]int{}}}
	config, _, err := c.User(r.user, "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		r.count(func() { r.requests.connections++ })
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{next, r} })
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

// warn records the Warning with a serial number. Each is about another pod, so that no two Warnings are similar.
func (r *recorder) warn(serial int) {
	number := strconv.Itoa(serial)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: quietNamespace, Name: "web-" + number, UID: types.UID("uid-" + number)}}
	r.record(pod, r.message(number))
}

// message returns the message of the Warning with a serial number.
func (r *recorder) message(number string) string {
	return fmt.Sprintf("Back-off restarting failed container, says %s of pod %s", r.user, number)
}

// snapshot returns a copy of the counts so far.
func (r *recorder) snapshot() (counts requestCounts) {
	r.count(func() {
		counts = r.requests
		counts.answers = maps.Clone(counts.answers)
	})
	return counts
}

// count calls update with the recorder's mutex held.
func (r *recorder) count(update func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	update()
}

// countingSink counts the Events that a recorder starts to send. countingTransport counts every try.
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
	next     http.RoundTripper
	recorder *recorder
}

// RoundTrip implements http.RoundTripper.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r := t.recorder
	r.count(func() {
		r.inFlight++
		r.requests.maxInFlight = max(r.requests.maxInFlight, r.inFlight)
	})
	response, err := t.next.RoundTrip(request)
	r.count(func() {
		r.inFlight--
		if err != nil {
			return
		}
		r.requests.answers[response.StatusCode]++
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without the header
		r.requests.retryAfter = max(r.requests.retryAfter, seconds)
	})
	return response, err
}
