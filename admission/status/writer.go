// Package status tells users what became of their policies and what these did:
// it writes the status of EventPolicies and ClusterEventPolicies.
package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
	// complainEvery is the least time between two log lines about one trouble.
	complainEvery = time.Minute
	// leastRound is the least time between two looks at all reports.
	leastRound = time.Second
)

// Policies is what is known of policies: a *watch.Cache.
type Policies interface {
	// Reports are those of all policies.
	Reports() []watch.Report
	// Object is a policy as the API server last told of it, or nil.
	Object(i policy.Identity) *unstructured.Unstructured
}

var _ Policies = (*watch.Cache)(nil)

// Writer writes the status of each policy when it has something new to say, at
// most once in an Interval: what became of a new generation at once, unless the
// status was written less than an Interval ago, and what was counted after that.
// When writes have to wait for each other, those about new generations go first.
//
// One goroutine does it all, so that nothing needs a lock. Make one with New for
// each term of a leader, and call Run once.
type Writer struct {
	policies Policies
	counts   Counts
	client   dynamic.Interface
	opts     Options

	records    map[types.UID]*record
	sums       *sums // nil before those of the last leader are read
	limiter    *rate.Limiter
	retries    workqueue.TypedRateLimiter[types.UID]
	lookAt     time.Time // when to look again at what was counted
	complaints rate.Sometimes
	uncounted  rate.Sometimes
}

// New makes a Writer of what is known of policies and what replicas have counted.
func New(policies Policies, counts Counts, client dynamic.Interface, o Options) *Writer {
	o.setDefaults()
	return &Writer{
		policies: policies, counts: counts, client: client, opts: o,
		records:    map[types.UID]*record{},
		limiter:    rate.NewLimiter(rate.Limit(o.WritesPerSecond), o.WritesPerSecond),
		retries:    workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](retryMin, retryMax),
		complaints: rate.Sometimes{Interval: complainEvery},
		uncounted:  rate.Sometimes{Interval: complainEvery},
	}
}

// Run keeps statuses up to date until ctx ends, and then returns nil: whatever
// fails is tried again, and what is not written is left to the next leader.
func (w *Writer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := time.Now()
		next := w.round(ctx)
		if next.Before(begun.Add(leastRound)) {
			next = begun.Add(leastRound)
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.opts.Wake:
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(begun.Add(leastRound))):
			}
		}
		timer.Stop()
	}
	return nil
}

// round writes what is due, and returns when there may be more to write.
func (w *Writer) round(ctx context.Context) time.Time {
	begun := time.Now()
	w.learn(begun)
	if !begun.Before(w.lookAt) {
		w.lookAt = begun.Add(w.opts.Look)
		if err := w.count(ctx, begun); err != nil && ctx.Err() == nil {
			w.uncounted.Do(func() {
				logr.FromContextOrDiscard(ctx).Error(err, "Counts in the status of policies are left as they are")
			})
		}
	}
	w.share(begun)
	due, next := w.plan(time.Now())
	for _, r := range due {
		// The rest waits for a new plan: something more urgent may have come up.
		since := time.Since(begun)
		if since >= w.opts.Look || since >= leastRound && len(w.opts.Wake) > 0 || w.limiter.Wait(ctx) != nil {
			return time.Now()
		}
		w.write(ctx, r)
		if r.notBefore.Before(next) && !r.notBefore.IsZero() {
			next = r.notBefore
		}
	}
	if w.lookAt.Before(next) {
		return w.lookAt
	}
	return next
}

// plan is what may be written now, in order, and when the first of what else
// there is to write may be.
func (w *Writer) plan(now time.Time) (due []*record, next time.Time) {
	next = now.Add(w.opts.Look)
	for _, r := range w.records {
		r.next = render(&r.report, r.sum, &r.stored, now)
		// A replica that knows less than has been written has nothing to say.
		if same(&r.stored, r.next) || r.stored.ObservedGeneration > r.report.Generation {
			continue
		}
		at := r.wrote.Add(w.opts.Interval)
		if r.notBefore.After(at) {
			at = r.notBefore
		}
		switch {
		case !at.After(now):
			due = append(due, r)
		case at.Before(next):
			next = at
		}
	}
	slices.SortFunc(due, func(a, b *record) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.wrote.Compare(b.wrote), cmp.Compare(a.report.UID, b.report.UID))
	})
	return due, next
}

// rank is less for what is to be written first.
func rank(r *record) int {
	if urgent(&r.stored, r.next) {
		return 0
	}
	return 1
}
