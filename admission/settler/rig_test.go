package settler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// rig is a Settler between a queue and an API server. It runs in a synctest bubble, where time passes when all goroutines wait.
type rig struct {
	*testing.T
	*fakeAPIServer

	client settler.Events
	queue  *fakeQueue // of tests that use no store

	mu      sync.Mutex
	results []string
	lost    []int64
	lags    []time.Duration
	logged  []string // errors
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := newFakeAPIServer()
	return &rig{T: t, fakeAPIServer: s, client: s.client(t), queue: &fakeQueue{}}
}

// runInBubble runs a test in parallel with others, on a clock of its own.
func runInBubble(t *testing.T, test func(*rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newRig(t)) })
}

// settle runs a Settler for a time, and drains it. It returns the error of Run.
func (r *rig) settle(pending store.Queue, during time.Duration, o settler.Options) error {
	ctx, cancel := context.WithTimeout(r.Context(), during)
	defer cancel()
	ctx = logr.NewContext(ctx, funcr.New(func(_, args string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.logged = append(r.logged, args)
	}, funcr.Options{}))
	o.Observe = func(try settler.Attempt) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.results = append(r.results, try.Result)
		switch try.Result {
		case "given_up":
			r.lost = append(r.lost, try.Lost)
		case "written":
			r.lags = append(r.lags, try.Lag)
		}
	}
	return settler.New(pending, r.client, o).Run(ctx)
}

// run runs a settler of the queue, and fails the test if Run returns an error.
func (r *rig) run(during time.Duration, o settler.Options) {
	r.Helper()
	if err := r.settle(r.queue, during, o); err != nil {
		r.Error(err)
	}
}

// start runs a Settler. The function that it returns drains the queue.
func (r *rig) start(pending store.Queue, during time.Duration, o settler.Options) (wait func()) {
	r.Helper()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = r.settle(pending, during, o)
	}()
	r.Cleanup(func() { <-ended })
	return func() {
		r.Helper()
		if <-ended; err != nil {
			r.Error(err)
		}
		if left, err := pending.Pending(context.Background()); err != nil || left > 0 {
			r.Errorf("%d groups are still pending, error %v", left, err)
		}
	}
}

// event is one that a kubelet writes about a Pod of the same name.
func event(namespace, name string, changes ...func(*corev1.Event)) *corev1.Event {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(name)},
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		Type:           corev1.EventTypeNormal, Reason: "Pulled", Message: "pulled",
		Count: 1, FirstTimestamp: now, LastTimestamp: now,
	}
	for _, change := range changes {
		change(e)
	}
	return e
}

// nodesMayPatch is a Rights that lets nodes patch all Events, and nobody else any.
type nodesMayPatch struct{}

func (nodesMayPatch) MayPatchEvents(_, _ string, u *policy.UserInfo) bool {
	return strings.HasPrefix(u.Username, "system:node:")
}

// captureCreate returns the evaluation of the CREATE of an Event, as a store gets it, also if its name is invalid.
func captureCreate(t *testing.T, e *corev1.Event, changes ...func(*policy.Policy)) (store.Write, store.Limits) {
	t.Helper()
	p := policy.Default()
	for _, change := range changes {
		change(p)
	}
	var q admission.CapturingStore
	gate := &admission.Gate{Store: &q, Policies: policy.NewCurrent(policy.NewSet(p, policy.Rules{}, nil)), Now: time.Now, Rights: nodesMayPatch{}}
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	r := &admission.Request{
		Request: policy.Request{Kind: kind, RequestKind: kind, Namespace: e.Namespace, Operation: admissionv1.Create},
		Object:  e.DeepCopy(),
	}
	r.Object.Name = "valid"
	r.UserInfo.Username = "system:node:node-1"
	if _, err := gate.Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	q.Write.Name = e.Name
	return q.Write, q.Limits
}

// pending is a write about an Event that was read before. Two occurrences are its own, and one was merged into it. The server has
// the Event.
func (r *rig) pending(name string, changes ...func(*store.PendingWrite)) store.PendingWrite {
	r.Helper()
	return r.pendingIn("default", name, changes...)
}

func (r *rig) pendingIn(namespace, name string, changes ...func(*store.PendingWrite)) store.PendingWrite {
	r.Helper()
	e := event(namespace, name, counts(2))
	r.put(e)
	stored := r.get(namespace, name)
	w, _ := captureCreate(r.T, e)
	p := store.PendingWrite{
		Ref:       store.Ref{Group: w.GroupKey, ID: 1},
		Namespace: namespace, Name: name, UID: string(stored.UID), ResourceVersion: stored.ResourceVersion,
		ObjectKey: w.ObjectKey, Key: w.ExactKey,
		Occurrences: store.Occurrences{Own: 2, Total: 3}, Written: 2,
		LastSeen: epoch().Add(90 * time.Second), Due: time.Now(),
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func counts(n int32) func(*corev1.Event) { return func(e *corev1.Event) { e.Count = n } }

// notReadYet changes a write to one about an Event that was not read yet.
func notReadYet(p *store.PendingWrite) { p.UID, p.ResourceVersion = "", "" }

// epoch is the start time of a bubble.
func epoch() time.Time { return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) }

// fakeQueue hands out its writes, and keeps their outcomes.
type fakeQueue struct {
	mu       sync.Mutex
	writes   []store.PendingWrite
	outcomes []string     // names and outcomes
	stored   store.Stored // of the last outcome
	// failingClaims and completes are how many calls fail at first, of which the first Claim brings something.
	failingClaims, failingCompletes int
	claimResult                     []store.PendingWrite
	// claimed and most are how many groups were claimed, last and at most.
	claimed    map[store.Key]bool
	maxClaimed int
}

var errStore = fmt.Errorf("store is unavailable")

// Claim implements store.Queue.
func (q *fakeQueue) Claim(_ context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool) ([]store.PendingWrite, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failingClaims > 0 {
		q.failingClaims--
		brought := q.claimResult
		q.claimResult = nil
		for _, p := range brought {
			claimed(p.Namespace, p.Ref.Group)
		}
		return brought, errStore
	}
	if q.claimed == nil {
		q.claimed = map[store.Key]bool{}
	}
	var writes []store.PendingWrite
	groups := map[store.Key]bool{}
	for _, p := range q.writes {
		group := p.Ref.Group
		if p.Due.After(now) && p.Due.Sub(now) > ahead || !groups[group] && (len(groups) == n || claimed(p.Namespace, group)) {
			continue
		}
		groups[group], q.claimed[group] = true, true
		writes = append(writes, p)
	}
	q.maxClaimed = max(q.maxClaimed, len(q.claimed))
	return writes, nil
}

// Complete implements store.Queue.
func (q *fakeQueue) Complete(_ context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failingCompletes > 0 {
		q.failingCompletes--
		return errStore
	}
	q.outcomes, q.stored = append(q.outcomes, p.Name+" "+o.Result.String()), o.Stored
	delete(q.claimed, p.Ref.Group)
	for i := range q.writes {
		w := &q.writes[i]
		switch {
		case w.Ref != p.Ref:
			continue
		case o.Result == store.Failed:
			if w.FailingSince.IsZero() {
				w.FailingSince = now
			}
			w.Due = now.Add(10 * time.Minute)
		default:
			q.writes = append(q.writes[:i], q.writes[i+1:]...)
		}
		return nil
	}
	return nil
}

// Pending implements store.Queue.
func (q *fakeQueue) Pending(context.Context) (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	groups := map[store.Key]bool{}
	for _, p := range q.writes {
		groups[p.Ref.Group] = true
	}
	return int64(len(groups)), nil
}
