// Package status writes the status of policies and quotas: whether they are in force, and what they did.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

const (
	// CountsEvery is how often the counts of one rule are written by default, whichever replica writes them.
	CountsEvery = 5 * time.Minute
	// changesEvery is the least time between two writes of one rule's status.
	changesEvery = 30 * time.Second
	// roundEvery is the time between two writes, of whatever rules, retries included.
	roundEvery = time.Second
	// lookEvery is the time between two looks at what has been counted.
	lookEvery = 10 * time.Second
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
	// Shadowed says by name what stands before rules of a namespace, or of the cluster for "", so that they, or
	// limits of them, can never decide; nothing for most.
	Shadowed(namespace string) map[string][]string
}

// Counts are what replicas have counted.
type Counts interface {
	// All are the snapshots of all replicas, within seconds.
	All(ctx context.Context) ([]busiest.Snapshot, error)
}

// Writer writes the status of each rule when it has changed. New generations go before counts, but not every time. Of
// each of the two, the cluster's rules have every other write, and namespaces take turns: so however many rules a
// namespace has, and however often they or their statuses change, others' statuses are written as if it had one.
//
// One goroutine does it all, so that nothing needs a lock. Make one with New for each term of a leader, and call Run
// once.
type Writer struct {
	rules  Rules
	counts Counts
	client dynamic.Interface
	// countsEvery is the least time between two writes of a status in which nothing but counts is new.
	countsEvery time.Duration

	records    map[types.UID]*record
	replicas   map[string]replica
	began      time.Time // when replicas were looked at first
	lookAt     time.Time // when to look again at what was counted
	retries    workqueue.TypedRateLimiter[types.UID]
	changes    bool              // the last write was for more than counts
	cluster    bool              // the last write was of a rule of the cluster
	turns      map[string]uint64 // by namespace, the number of its last write
	writes     uint64
	complaints rate.Sometimes
	uncounted  rate.Sometimes
}

// New makes a Writer of what is known of rules and what replicas have counted, which it writes countsEvery.
func New(rules Rules, counts Counts, countsEvery time.Duration, client dynamic.Interface) *Writer {
	return &Writer{
		rules: rules, counts: counts, countsEvery: countsEvery, client: client,
		records: map[types.UID]*record{}, replicas: map[string]replica{}, turns: map[string]uint64{},
		retries:    workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](retryMin, retryMax),
		complaints: rate.Sometimes{Interval: complainEvery},
		uncounted:  rate.Sometimes{Interval: complainEvery},
	}
}

// Run keeps statuses up to date until ctx ends, and then returns nil. Failures are tried again, and what is not
// written is left to the next leader.
func (w *Writer) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, w.round, roundEvery)
	return nil
}

// round makes one write, if any is due.
func (w *Writer) round(ctx context.Context) {
	now := time.Now()
	if !now.Before(w.lookAt) {
		w.lookAt = now.Add(lookEvery)
		if err := w.look(ctx, now); err != nil && ctx.Err() == nil {
			w.uncounted.Do(func() {
				logr.FromContextOrDiscard(ctx).Error(err, "Counts in the status of policies and quotas are left as they are")
			})
		}
	}
	w.learn(now)
	if r := w.first(now); r != nil && ctx.Err() == nil {
		w.write(ctx, r)
	}
}

// first is the record whose status is to be written first of those that are due; nil for none.
func (w *Writer) first(now time.Time) *record {
	var changed, counted turn
	for _, r := range w.records {
		every := w.countsEvery
		// A replica that knows less than has been written has nothing to say.
		if r.report.Pending || r.stored.ObservedGeneration > r.report.Generation || now.Before(r.notBefore) ||
			now.Before(r.wrote.Add(min(changesEvery, every))) {
			continue
		}
		if !now.Before(r.rendered) {
			r.render(now)
			r.rendered, r.idle = now.Add(lookEvery), equality.Semantic.DeepEqual(&r.stored, r.next)
		}
		best := &counted
		if r.urgent {
			best, every = &changed, 0
		}
		if r.idle || now.Before(r.wrote.Add(every)) {
			continue
		}
		best.add(r, w.turns[r.report.Namespace])
	}
	// Anyone who changes rules all the time must not keep others' counts from being written.
	if changed.none() || w.changes && !counted.none() {
		return counted.next(w.cluster)
	}
	return changed.next(w.cluster)
}

// write writes the status of a rule. A failure is tried again later, as long as the rule exists.
func (w *Writer) write(ctx context.Context, r *record) {
	w.changes = r.urgent
	w.taken(r)
	r.rendered = time.Time{}
	err := w.patch(ctx, r)
	if err == nil {
		w.retries.Forget(r.report.UID)
		r.wrote, r.notBefore = time.Now(), time.Time{}
		if r.sum != nil {
			r.sum.sources = nil
		}
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
