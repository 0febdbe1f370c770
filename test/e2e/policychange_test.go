package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/eventquota/eventquota/test/cluster"
)

// TestChangesOfPolicies changes policies of a running webhook with kubectl.
func TestChangesOfPolicies(t *testing.T) {
	if !isolated(t) {
		return
	}
	e := newEnv(t, cluster.Options{NoAudit: true})
	e.policiesGovern(e.namespace("known"))
	t.Run("the last valid version goes on governing", func(t *testing.T) { e.in(t).keepsTheLastValidVersion() })
	t.Run("a change is in force within a second and as a whole, at 500 Events a second", func(t *testing.T) {
		e.in(t).changesAsAWhole()
	})
}

// twoKinds are policies of both kinds and of one name, which drop the Events of a
// reason each; but for what is to be replaced.
const twoKinds = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: NAME}
spec: {tier: Admin, precedence: PRECEDENCE, action: Drop, match: {conditions: [{name: a, expression: "CLUSTER"}]}}
---
apiVersion: eventquota.io/v1alpha1
kind: EventPolicy
metadata: {name: NAME, namespace: valid}
spec: {precedence: PRECEDENCE, action: Drop, match: {conditions: [{name: a, expression: "OWN"}]}}
---`

func both(name string, precedence int, cluster, own string) string {
	return strings.NewReplacer("NAME", name, "PRECEDENCE", fmt.Sprint(precedence), "CLUSTER", cluster, "OWN", own).Replace(twoKinds)
}

// reasonIs is a condition.
func reasonIs(reason string) string { return "event.reason == '" + reason + "'" }

// keepsTheLastValidVersion writes policies that the API server accepts, as a schema
// knows nothing of CEL, and that are not valid.
func (e *env) keepsTheLastValidVersion() {
	namespace := e.namespace("valid")
	e.kubectl(both("kept", 500, reasonIs("Cluster"), reasonIs("Own")), "apply", "-f", "-")
	e.soon("the first version", func() bool { return e.dropped(namespace, "Own") && e.dropped(namespace, "Cluster") })
	for i, test := range []struct{ says, expression string }{
		{"does not parse", "event.reason =="},
		{"is not of type bool", "event.reason"},
		{"reads what is not there", "object.reason == 'Own'"},
	} {
		// Policies of a kind come in their order: when the last governs, the others
		// are known. The last of the others would drop all, if it governed.
		mark := fmt.Sprint("Mark", i)
		e.kubectl(both("kept", 500, test.expression, test.expression)+
			both("new", 1, test.expression, test.expression)+
			both(strings.ToLower(mark), 500, reasonIs("Cluster"+mark), reasonIs("Own"+mark)), "apply", "-f", "-")
		e.soon("what comes after it", func() bool { return e.dropped(namespace, "Own"+mark) && e.dropped(namespace, "Cluster"+mark) })
		if !e.dropped(namespace, "Own") || !e.dropped(namespace, "Cluster") {
			e.Errorf("an expression that %s: the version before no longer governs", test.says)
		}
		if e.dropped(namespace, "Other") {
			e.Errorf("an expression that %s: the policy governs", test.says)
		}
	}
	e.kubectl(both("kept", 500, reasonIs("None"), reasonIs("None")), "apply", "-f", "-")
	e.soon("the next valid version", func() bool { return !e.dropped(namespace, "Own") && !e.dropped(namespace, "Cluster") })
}

// soon holds that something comes true as soon as a policy must govern. kubectl has
// just ended.
func (e *env) soon(what string, holds func() bool) {
	e.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > inForce {
			e.Fatalf("%s is not in force after %s", what, inForce)
		}
	}
	e.Logf("%s: in force %s after kubectl", what, time.Since(began).Round(time.Millisecond))
}

// dropped reports whether a policy drops an Event of a reason, which is about
// something new.
func (e *env) dropped(namespace, reason string) bool {
	e.Helper()
	object := fmt.Sprint("web-", time.Now().UnixNano())
	event := coreEvent(namespace, object, object, "told once")
	event.Reason = reason
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
	if err != nil && !strings.HasSuffix(err.Error(), "drops it") {
		e.Fatal(err)
	}
	return err != nil
}

const (
	// streamRate is in Events a second.
	streamRate = 500
	// streamPlaces bounds the Events that are under way: a namespace alone may have half of --max-in-flight decided at the
	// same time.
	streamPlaces = 120
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
	empty := regexp.MustCompile(`limit "(\w+)" of ClusterEventQuota changing is empty: next token at \S+, in (\S+)$`).
		FindStringSubmatch(err.Error())
	if !apierrors.IsTooManyRequests(err) || empty == nil {
		return err.Error()
	}
	in, invalid := time.ParseDuration(empty[2])
	if invalid != nil {
		return errors.Join(err, invalid).Error()
	}
	// The token was taken less than half an hour ago, or a moment later than this Event began to be decided.
	return refusedBy(empty[1], int(math.Round(in.Hours())))
}
