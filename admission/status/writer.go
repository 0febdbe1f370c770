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
	// DefaultCountsInterval is how often the counts of one rule are written by default, whichever replica writes them.
	DefaultCountsInterval = 5 * time.Minute
	// minChangeInterval is the least time between two writes of one rule's status.
	minChangeInterval = 30 * time.Second
	// writeInterval is the time between two writes, of whatever rules, retries included.
	writeInterval = time.Second
	// collectInterval is the time between two looks at what has been counted.
	collectInterval = 10 * time.Second
	// requestTimeout bounds one write.
	requestTimeout               = 10 * time.Second
	minRetryDelay, maxRetryDelay = time.Second, 5 * time.Minute
	// logInterval is the least time between two log lines about one trouble.
	logInterval = time.Minute
	// fieldManager is the field manager of statuses.
	fieldManager = "eventquota-status"
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
	// Snapshots are the snapshots of all replicas, within seconds.
	Snapshots(ctx context.Context) ([]busiest.Snapshot, error)
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
	// countsInterval is the least time between two writes of a status in which nothing but counts is new.
	countsInterval time.Duration

	records          map[types.UID]*ruleState
	replicas         map[string]replicaCounts
	firstCollection  time.Time // when replicas were looked at first
	nextCollection   time.Time // when to look again at what was counted
	retries          workqueue.TypedRateLimiter[types.UID]
	wroteChanges     bool              // the last write was for more than counts
	wroteCluster     bool              // the last write was of a rule of the cluster
	turns            map[string]uint64 // by namespace, the number of its last write
	writes           uint64
	writeLogLimiter  rate.Sometimes
	countsLogLimiter rate.Sometimes
}

// New makes a Writer of what is known of rules and what replicas have counted, which it writes countsInterval.
func New(rules Rules, counts Counts, countsEvery time.Duration, client dynamic.Interface) *Writer {
	return &Writer{
		rules: rules, counts: counts, countsInterval: countsEvery, client: client,
		records: map[types.UID]*ruleState{}, replicas: map[string]replicaCounts{}, turns: map[string]uint64{},
		retries:          workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](minRetryDelay, maxRetryDelay),
		writeLogLimiter:  rate.Sometimes{Interval: logInterval},
		countsLogLimiter: rate.Sometimes{Interval: logInterval},
	}
}

// Run keeps statuses up to date until ctx ends, and then returns nil. Failures are tried again, and what is not
// written is left to the next leader.
func (w *Writer) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, w.round, writeInterval)
	return nil
}

// round makes one write, if any is due.
func (w *Writer) round(ctx context.Context) {
	now := time.Now()
	if !now.Before(w.nextCollection) {
		w.nextCollection = now.Add(collectInterval)
		if err := w.collectCounts(ctx, now); err != nil && ctx.Err() == nil {
			w.countsLogLimiter.Do(func() {
				logr.FromContextOrDiscard(ctx).Error(err, "Counts in the status of policies and quotas are left as they are")
			})
		}
	}
	w.refresh(now)
	if r := w.nextDue(now); r != nil && ctx.Err() == nil {
		w.write(ctx, r)
	}
}

// nextDue is the record whose status is to be written first of those that are due; nil for none.
func (w *Writer) nextDue(now time.Time) *ruleState {
	var changed, counted nextWrite
	for _, r := range w.records {
		every := w.countsInterval
		// A replica that knows less than has been written has nothing to say.
		if r.report.Pending || r.stored.ObservedGeneration > r.report.Generation || now.Before(r.notBefore) ||
			now.Before(r.lastWrite.Add(min(minChangeInterval, every))) {
			continue
		}
		if !now.Before(r.validUntil) {
			r.render(now)
			r.validUntil, r.upToDate = now.Add(collectInterval), equality.Semantic.DeepEqual(&r.stored, r.next)
		}
		best := &counted
		if r.urgent {
			best, every = &changed, 0
		}
		if r.upToDate || now.Before(r.lastWrite.Add(every)) {
			continue
		}
		best.add(r, w.turns[r.report.Namespace])
	}
	// Anyone who changes rules all the time must not keep others' counts from being written.
	if changed.isEmpty() || w.wroteChanges && !counted.isEmpty() {
		return counted.choose(w.wroteCluster)
	}
	return changed.choose(w.wroteCluster)
}

// write writes the status of a rule. A failure is tried again later, as long as the rule exists.
func (w *Writer) write(ctx context.Context, r *ruleState) {
	w.wroteChanges = r.urgent
	w.noteTurn(r)
	r.validUntil = time.Time{}
	err := w.patch(ctx, r)
	if err == nil {
		w.retries.Forget(r.report.UID)
		r.lastWrite, r.notBefore = time.Now(), time.Time{}
		if r.counts != nil {
			r.counts.sources = nil
		}
		return
	}
	r.notBefore = time.Now().Add(w.retries.When(r.report.UID))
	if ctx.Err() != nil || apierrors.IsNotFound(err) {
		return // the end of the term, or of the rule
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("rule", r.report.String(), "generation", r.report.Generation)
	log.V(1).Info("Status not written", "reason", err.Error())
	w.writeLogLimiter.Do(func() { log.Error(err, "Statuses of policies and quotas cannot be written, trying again") })
}

// patch replaces the status of the rule of a uid. The API server accepts a status patch that names another uid,
// so the patch tests it.
func (w *Writer) patch(ctx context.Context, r *ruleState) error {
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
		types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}
