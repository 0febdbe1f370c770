package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	// streamRate is in Events a second.
	streamRate = 500
	// streamPlaces bounds the Events that are under way.
	streamPlaces = 200
	// messageBytes is longer than any version leaves a message.
	messageBytes = 200
)

// stream writes Events at a steady rate, none of which is like another.
type stream struct {
	client    kubernetes.Interface
	namespace string

	mu      sync.Mutex
	answers []answered
}

// answered is an Event of the stream, and what became of it.
type answered struct {
	told

	begun, ended time.Time
	became       string
}

func newStream(e *env, namespace string) *stream {
	e.Helper()
	config := rest.CopyConfig(e.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			user, _ := r.Context().Value(streamUser{}).(string)
			as := transport.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
			return transport.NewImpersonatingRoundTripper(as, next).RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(config)
	e.must(err)
	return &stream{client: client, namespace: namespace}
}

// streamUser is the key of the user, in the context of a request.
type streamUser struct{}

// run writes until ctx ends, and returns when all Events are answered.
func (s *stream) run(ctx context.Context) {
	var writers sync.WaitGroup
	defer writers.Wait()
	places := make(chan struct{}, streamPlaces)
	begun, turns := time.Now(), toldInTurn()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * time.Second / streamRate)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		places <- struct{}{}
		writers.Go(func() {
			s.write(context.WithoutCancel(ctx), n, turns[n%len(turns)])
			<-places
		})
	}
}

func (s *stream) write(ctx context.Context, n int, what told) {
	user, object := fmt.Sprint("user-", n), fmt.Sprint("web-", n)
	if what.oneUser {
		user = "one"
	}
	if what.oneObject {
		object = "hot"
	}
	event := coreEvent(s.namespace, fmt.Sprint("told-", n), object, fmt.Sprintf("%-*d", messageBytes, n))
	event.Reason, event.ReportingController, event.ReportingInstance = what.reason, "example.com/stream", fmt.Sprint("stream-", n)
	event.InvolvedObject.UID = types.UID(object)
	a := answered{told: what, begun: time.Now()}
	stored, err := s.client.CoreV1().Events(s.namespace).Create(context.WithValue(ctx, streamUser{}, user), event, metav1.CreateOptions{})
	a.ended, a.became = time.Now(), became(stored, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
}

// all are the answers so far, in the order in which they came.
func (s *stream) all() []answered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]answered(nil), s.answers...)
}

// after is how many of the Events that were answered had begun after a time.
func (s *stream) after(t time.Time) (n int) {
	for _, a := range s.all() {
		if a.begun.After(t) {
			n++
		}
	}
	return n
}

// became is what became of an Event, in words.
func became(stored *corev1.Event, err error) string {
	if err == nil {
		if len(stored.Message) == messageBytes {
			return storedWhole
		}
		return storedCut(len(stored.Message))
	}
	empty := regexp.MustCompile(`(\w+) quota of policy "ClusterEventPolicy changing" is empty: next token at \S+, in (\S+)$`).
		FindStringSubmatch(err.Error())
	if !apierrors.IsTooManyRequests(err) || empty == nil {
		return err.Error()
	}
	in, invalid := time.ParseDuration(empty[2])
	if invalid != nil {
		return errors.Join(err, invalid).Error()
	}
	// It lasts for less than an hour that the bucket is empty.
	return refusedBy(empty[1], int(math.Ceil(in.Hours())))
}
