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
	// streamRate is in Events a second.
	streamRate = 250
	// streamInFlight bounds the Events that are under way: a namespace alone may have half of --max-in-flight decided at the
	// same time.
	streamInFlight = 120
	// messageBytes is longer than any version leaves a message.
	messageBytes = 200
)

// versionedRules is a version of a policy and of a quota: two objects, so an Event may be decided by two versions. Each spares
// Events of one reason, and shows its number in all others: the policy by how long a message it leaves, the quota by the
// name of its limit and by how long it takes until a token comes back. The policy rest leaves those whole that are spared.
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

// testAtomicVersionChanges holds that versions of a policy and a quota come into force soon after kubectl has ended, in their
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
		e.Fatalf("%d calls of the webhook failed (%v): what became of their Events says nothing", failed, err)
	}
	for _, wrong := range s.problems[:min(len(s.problems), 20)] {
		e.Error(wrong)
	}
	e.kubectl(versionedRules(versions), "delete", "-f", "-")
	e.waitPoliciesGovern(e.namespace("changed"))
}

// versionPair are versions of the policy and of the quota, 0 for none.
type versionPair struct{ policy, quota int }

// stream writes Events at a steady rate, none of which is like another, and looks at which version decided each.
type stream struct {
	client    kubernetes.Interface
	namespace string

	mu       sync.Mutex
	seen     versionPair // the newest
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

// streamUser is the key of the user, in the context of a request.
type streamUser struct{}

// run writes until ctx ends, and returns when all Events are answered.
func (s *stream) run(ctx context.Context) {
	var writers sync.WaitGroup
	defer writers.Wait()
	places := make(chan struct{}, streamInFlight)
	begun := time.Now()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * time.Second / streamRate)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		places <- struct{}{}
		writers.Go(func() {
			s.write(context.WithoutCancel(ctx), n)
			<-places
		})
	}
}

// write writes the n-th Event, which one version spares. Every other one is by the same user.
func (s *stream) write(ctx context.Context, n int) {
	sparedBy, user, object := 1+n/2%versions, fmt.Sprint("user-", n), fmt.Sprint("web-", n)
	if n%2 == 0 {
		user = "one"
	}
	event := coreEvent(s.namespace, fmt.Sprint("told-", n), object, fmt.Sprintf("%-*d", messageBytes, n))
	event.Reason, event.InvolvedObject.UID = fmt.Sprint("Spared", sparedBy), types.UID(object)
	before := s.newest(0)
	stored, err := s.client.CoreV1().Events(s.namespace).Create(context.WithValue(ctx, streamUser{}, user), event, metav1.CreateOptions{})
	by, said := decidedBy(sparedBy, stored, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written++
	older := by.policy > 0 && by.policy < before.policy || by.quota > 0 && by.quota < before.quota
	if older || by == (versionPair{}) {
		s.problems = append(s.problems, fmt.Sprintf("%s %s, which no whole version does that is as new as %+v", event.Reason, said, before))
	}
	s.seen = versionPair{max(s.seen.policy, by.policy), max(s.seen.quota, by.quota)}
}

// newest are the newest versions that an Event has shown, after a while.
func (s *stream) newest(after time.Duration) versionPair {
	<-time.After(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

var refusal = regexp.MustCompile(`limit "v(\d)" of ClusterEventQuota changing is empty: next token at \S+, in (\S+)$`)

// decidedBy finds out which version decided an Event: neither, where no whole version does what became of it.
func decidedBy(sparedBy int, stored *corev1.Event, err error) (by versionPair, said string) {
	switch {
	case err == nil && len(stored.Message) == messageBytes:
		return versionPair{policy: sparedBy}, "stored whole"
	case err == nil:
		n := len(stored.Message) - 100
		if n != sparedBy && n > 0 && n <= versions {
			by.policy = n
		}
		return by, fmt.Sprintf("stored, cut to %d bytes", len(stored.Message))
	}
	empty := refusal.FindStringSubmatch(err.Error())
	if empty == nil {
		return by, err.Error()
	}
	// The token was taken less than half an hour ago, or a moment later than this Event began to be decided.
	in, invalid := time.ParseDuration(empty[2])
	if n := int(math.Round(in.Hours())); invalid == nil && strconv.Itoa(n) == empty[1] && n != sparedBy {
		by.quota = n
	}
	return by, err.Error()
}
