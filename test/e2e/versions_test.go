package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	versions = 6
	// streamRate is the number of Events a second.
	streamRate = 120
	// streamInFlight bounds the concurrent Events. A single namespace may use half of --max-in-flight.
	streamInFlight = 120
	// messageBytes is longer than the maxBytes of any version.
	messageBytes = 200
)

// versionedRules returns one version of a policy and a quota. An Event may be decided by different versions
// of the two. Each version spares Events of one reason. It marks all others with its number: the policy by the message
// length, the quota by the limit's name and the interval of a token. The policy rest keeps the messages of spared
// Events.
func versionedRules(version int) string {
	return strings.ReplaceAll(`
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: rest}
spec: {tier: Baseline, merge: {enabled: false}, spamFilter: {enabled: false}}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: changing}
spec:
  tier: Admin
  match:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: changing}}
    conditions: [{name: spares, expression: event.reason != 'SparedVERSION'}]
  message: {maxBytes: 10VERSION}
  merge: {enabled: false}
  spamFilter: {enabled: false}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: changing}
spec:
  match:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: changing}}
    conditions: [{name: spares, expression: event.reason != 'SparedVERSION'}]
  limits: [{name: vVERSION, per: [User], burst: 1, tokens: 1, interval: VERSIONh}]
`, "VERSION", strconv.Itoa(version))
}

// testAtomicVersionChanges checks that versions of a policy and a quota come into force soon after kubectl ends, in
// order, and each as a whole.
func (e *env) testAtomicVersionChanges() {
	e.Helper()
	s := newStream(e, e.namespace("changing"))
	e.kubectl(versionedRules(1), "apply", "-f", "-")
	e.kubectl(versionedRules(1), "wait", "--for=condition=Ready", "--timeout=2m", "-f", "-")
	ctx, end := context.WithCancel(e.Context())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	defer running.Wait()
	defer end()
	for n := 2; n <= versions; n++ {
		e.kubectl(versionedRules(n), "apply", "-f", "-")
		e.eventuallyInForce(fmt.Sprint("version ", n), func() bool { return s.newest(100*time.Millisecond) == versionPair{n, n} })
	}
	end()
	running.Wait()
	e.Logf("%d Events were written", s.written)
	if failed, err := e.cluster.WebhookFailures(e.Context()); err != nil || failed != 0 {
		e.Fatalf("%d webhook calls failed (%v), want none, because they hide the deciding version", failed, err)
	}
	for _, problem := range s.problems[:min(len(s.problems), 20)] {
		e.Error(problem)
	}
	e.kubectl(versionedRules(versions), "delete", "-f", "-")
	e.waitPoliciesGovern(e.namespace("changed"))
}

// versionPair holds the versions of the policy and the quota. 0 means unknown.
type versionPair struct{ policy, quota int }

// stream writes distinct Events at a steady rate and derives which version decided each.
type stream struct {
	client    kubernetes.Interface
	namespace string

	mu       sync.Mutex
	seen     versionPair // the newest version seen
	written  int
	problems []string
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

// streamUser is the context key of the impersonated user.
type streamUser struct{}

// run writes until ctx ends, and returns once all Events are answered.
func (s *stream) run(ctx context.Context) {
	var writers sync.WaitGroup
	defer writers.Wait()
	inFlight := make(chan struct{}, streamInFlight)
	begun := time.Now()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * time.Second / streamRate)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		inFlight <- struct{}{}
		writers.Go(func() {
			s.write(context.WithoutCancel(ctx), n)
			<-inFlight
		})
	}
}

// write writes the n-th Event, which one version spares. Every other Event has the same user.
func (s *stream) write(ctx context.Context, n int) {
	sparedBy, user, object := 1+n/2%versions, fmt.Sprint("user-", n), fmt.Sprint("web-", n)
	if n%2 == 0 {
		user = "one"
	}
	event := coreEvent(s.namespace, fmt.Sprint("event-", n), object, fmt.Sprintf("%-*d", messageBytes, n))
	event.Reason, event.InvolvedObject.UID = fmt.Sprint("Spared", sparedBy), types.UID(object)
	before := s.newest(0)
	stored, err := s.client.CoreV1().Events(s.namespace).Create(context.WithValue(ctx, streamUser{}, user), event, metav1.CreateOptions{})
	by, outcome := decidedBy(sparedBy, stored, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written++
	older := by.policy > 0 && by.policy < before.policy || by.quota > 0 && by.quota < before.quota
	if older || by == (versionPair{}) {
		s.problems = append(s.problems, fmt.Sprintf("%s %s, want the outcome of one version, no older than %+v", event.Reason, outcome, before))
	}
	s.seen = versionPair{max(s.seen.policy, by.policy), max(s.seen.quota, by.quota)}
}

// newest waits for a duration and returns the newest versions seen so far.
func (s *stream) newest(after time.Duration) versionPair {
	<-time.After(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

var refusal = regexp.MustCompile(`limit "v(\d)" of ClusterEventQuota changing is empty: next token at \S+, in (\S+)$`)

// decidedBy derives which version decided an Event. by is zero if no version has that outcome.
func decidedBy(sparedBy int, stored *corev1.Event, err error) (by versionPair, outcome string) {
	switch {
	case err == nil && len(stored.Message) == messageBytes:
		return versionPair{policy: sparedBy}, "stored whole"
	case err == nil:
		n := len(stored.Message) - 100
		if n != sparedBy && n > 0 && n <= versions {
			by.policy = n
		}
		return by, fmt.Sprintf("stored, truncated to %d bytes", len(stored.Message))
	}
	empty := refusal.FindStringSubmatch(err.Error())
	if empty == nil {
		return by, err.Error()
	}
	// The token was taken less than half an hour ago, or shortly after the decision of this Event began.
	in, invalid := time.ParseDuration(empty[2])
	if n := int(math.Round(in.Hours())); invalid == nil && strconv.Itoa(n) == empty[1] && n != sparedBy {
		by.quota = n
	}
	return by, err.Error()
}
