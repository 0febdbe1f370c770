// Package status writes the status of policies and quotas: whether they are in force, and what they did.
package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

const (
	// CountsEvery is how often the counts of one rule are written by default, whichever replica writes them.
	CountsEvery = 5 * time.Minute
	// changesEvery is the least time between two writes of one rule's status.
	changesEvery = 30 * time.Second
	// lookEvery is the time between two looks at what has been counted.
	lookEvery = 10 * time.Second
	// leastRound is the least time between two looks at all reports, and between two checks of rules.
	leastRound = time.Second
	// writesPerSecond bounds the writes of all rules, retries included, and their bursts.
	writesPerSecond = 1
	// requestTimeout bounds one write.
	requestTimeout     = 10 * time.Second
	retryMin, retryMax = time.Second, 5 * time.Minute
	// complainEvery is the least time between two log lines about one trouble.
	complainEvery = time.Minute
	// manager is the field manager of statuses.
	manager = "eventquota-status"
)

// Rules is what is known of policies and quotas: a *watch.Cache.
type Rules interface {
	// Reports are those of all rules.
	Reports() []watch.Report
	// Check finds out for Reports whether a rule that is Pending is valid.
	Check(i policy.Identity)
	// Shadowed says by name what stands before rules of a namespace, or of the cluster for "", so that they, or
	// limits of them, can never decide; nothing for most.
	Shadowed(namespace string) map[string][]string
}

var _ Rules = (*watch.Cache)(nil)

// Writer writes the status of each rule when it has changed. New generations go before counts, but not every time.
//
// One goroutine does it all, so that nothing needs a lock. Make one with New for
// each term of a leader, and call Run once.
type Writer struct {
	rules  Rules
	counts Counts
	client dynamic.Interface
	wake   <-chan struct{}
	// countsEvery is the least time between two writes of a status in which nothing but counts is new.
	countsEvery time.Duration

	records    map[types.UID]*record
	sums       *sums // nil before those of the last leader are read
	limiter    *rate.Limiter
	retries    workqueue.TypedRateLimiter[types.UID]
	lookAt     time.Time // when to look again at what was counted
	checkAt    time.Time // when to check the next rule that is pending
	changes    bool      // the last write was for more than counts
	complaints rate.Sometimes
	uncounted  rate.Sometimes
}

// New makes a Writer of what is known of rules and what replicas have counted, which it writes countsEvery. wake has
// an element when there are new reports.
func New(rules Rules, counts Counts, countsEvery time.Duration, client dynamic.Interface, wake <-chan struct{}) *Writer {
	return &Writer{
		rules: rules, counts: counts, countsEvery: countsEvery, client: client, wake: wake,
		records:    map[types.UID]*record{},
		limiter:    rate.NewLimiter(writesPerSecond, writesPerSecond),
		retries:    workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](retryMin, retryMax),
		complaints: rate.Sometimes{Interval: complainEvery},
		uncounted:  rate.Sometimes{Interval: complainEvery},
	}
}

// Run keeps statuses up to date until ctx ends, and then returns nil. Failures are tried again, and what is not
// written is left to the next leader.
func (w *Writer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := time.Now()
		next := w.round(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		case <-w.wake:
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(begun.Add(leastRound))):
		}
	}
	return nil
}

// round writes what is due, and returns when there may be more to write.
func (w *Writer) round(ctx context.Context) time.Time {
	begun := time.Now()
	w.learn(begun)
	unchecked := w.check(begun)
	if !begun.Before(w.lookAt) {
		w.lookAt = begun.Add(lookEvery)
		if err := w.count(ctx, begun); err != nil && ctx.Err() == nil {
			w.uncounted.Do(func() {
				logr.FromContextOrDiscard(ctx).Error(err, "Counts in the status of policies and quotas are left as they are")
			})
		}
	}
	w.share(begun)
	due, next := w.plan(time.Now())
	for _, r := range due {
		// The rest waits for a new plan: something more urgent may have come up.
		since := time.Since(begun)
		if since >= lookEvery || since >= leastRound && (unchecked || len(w.wake) > 0) || w.limiter.Wait(ctx) != nil {
			return time.Now()
		}
		w.write(ctx, r)
		if !r.notBefore.IsZero() {
			next = earlier(next, r.notBefore)
		}
	}
	if unchecked {
		next = earlier(next, w.checkAt)
	}
	return earlier(next, w.lookAt)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// check has one rule checked that nobody knows yet to be valid or not, and reports whether there are more. Those
// of which the status says so are left.
func (w *Writer) check(now time.Time) (more bool) {
	for _, r := range w.records {
		if !r.report.Pending || r.stored.ObservedGeneration >= r.report.Generation {
			continue
		}
		if now.Before(w.checkAt) {
			return true
		}
		w.checkAt = now.Add(leastRound)
		w.rules.Check(r.report.Identity)
		w.learn(now)
	}
	return false
}

// plan is what may be written now, in order, and when the first of what else there is to write may be.
func (w *Writer) plan(now time.Time) (due []*record, next time.Time) {
	next = now.Add(lookEvery)
	var changes, counts []*record
	for _, r := range w.records {
		// A replica that knows less than has been written has nothing to say.
		if r.report.Pending || r.stored.ObservedGeneration > r.report.Generation {
			continue
		}
		if r.next = render(r, now); same(&r.stored, r.next) {
			continue
		}
		at := r.wrote.Add(w.countsEvery)
		if r.urgent = urgent(&r.stored, r.next); r.urgent {
			at = r.wrote.Add(min(changesEvery, w.countsEvery))
		}
		if r.notBefore.After(at) {
			at = r.notBefore
		}
		switch {
		case at.After(now):
			next = earlier(next, at)
		case r.urgent:
			changes = append(changes, r)
		default:
			counts = append(counts, r)
		}
	}
	for _, some := range [][]*record{changes, counts} {
		slices.SortFunc(some, func(a, b *record) int {
			return cmp.Or(a.wrote.Compare(b.wrote), cmp.Compare(a.report.UID, b.report.UID))
		})
	}
	// Anyone who changes rules all the time must not keep others' counts from being written.
	if w.changes && len(counts) > 0 {
		return slices.Concat(counts[:1], changes, counts[1:]), next
	}
	return append(changes, counts...), next
}

// write writes the status of a rule. A failure is tried again later, as long as the rule exists.
func (w *Writer) write(ctx context.Context, r *record) {
	w.changes = r.urgent
	err := w.patch(ctx, r)
	if err == nil {
		w.retries.Forget(r.report.UID)
		r.wrote, r.notBefore = time.Now(), time.Time{}
		return
	}
	r.notBefore = time.Now().Add(w.retries.When(r.report.UID))
	if ctx.Err() != nil || apierrors.IsNotFound(err) {
		return // the end of the term, or of the rule
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("rule", r.report.String(), "generation", r.report.Generation)
	log.V(1).Info("Status not written", "reason", err.Error())
	w.complaints.Do(func() { log.Error(err, "Statuses of policies and quotas cannot be written, trying again") })
}

// patch replaces the status of the rule of a uid. The API server accepts a status patch that names another uid,
// so the patch tests it.
func (w *Writer) patch(ctx context.Context, r *record) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": r.report.UID},
		{"op": "add", "path": "/status", "value": r.next},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = w.client.Resource(v1alpha1.Resources()[r.report.Kind]).Namespace(r.report.Namespace).Patch(ctx, r.report.Name,
		types.JSONPatchType, body, metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}
