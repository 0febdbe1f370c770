// Package status writes the status of policies and quotas: whether they are in force, and how much they admitted, merged and dropped.
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
	// DefaultCountsInterval is the default of how often the counts of one rule are written, whichever replica writes them.
	DefaultCountsInterval = 5 * time.Minute
	// minChangeInterval is the least time between two writes of one rule's status.
	minChangeInterval = 30 * time.Second
	// writeInterval is the time between two writes of any rules, retries included.
	writeInterval = time.Second
	// collectInterval is the time between two collections of counts.
	collectInterval = 10 * time.Second
	// requestTimeout bounds one write.
	requestTimeout               = 10 * time.Second
	minRetryDelay, maxRetryDelay = time.Second, 5 * time.Minute
	// logInterval is the least time between two log messages about one kind of failure.
	logInterval = time.Minute
	// fieldManager is the field manager of statuses.
	fieldManager = "eventquota-status"
)

// Rules has the policies and quotas. It is implemented by *watch.Cache.
type Rules interface {
	// Reports returns the reports of all rules.
	Reports() []watch.Report
	// Shadowed returns the rules of a namespace, or of the cluster for "", that never apply or that have limits that never do. It
	// maps the name of each to the objects that take precedence.
	Shadowed(namespace string) map[string][]string
}

// Counts reads the counts of all replicas.
type Counts interface {
	// Snapshots returns the snapshots of all replicas. They are seconds old at most.
	Snapshots(ctx context.Context) ([]busiest.Snapshot, error)
}

// Writer writes the status of each rule when it has changed. Statuses with more than new counts go first, but not every time.
// Within each of these two kinds, the cluster's rules get every other write, and namespaces take turns. So however many rules a
// namespace has, and however often they or their statuses change, other statuses are written as if it had one rule.
//
// All work runs in one goroutine, so nothing needs a lock. Make a Writer with New for each term of a leader, and call Run once.
type Writer struct {
	rules  Rules
	counts Counts
	client dynamic.Interface
	// countsInterval is the least time between two writes of a status in which only counts are new.
	countsInterval time.Duration

	records          map[types.UID]*ruleState
	replicas         map[string]replicaCounts
	firstCollection  time.Time // zero before it
	nextCollection   time.Time
	retries          workqueue.TypedRateLimiter[types.UID]
	wroteChanges     bool              // the last write was for more than counts
	wroteCluster     bool              // the last write was for a rule of the cluster
	turns            map[string]uint64 // the number of the last write, by namespace
	writes           uint64
	writeLogLimiter  rate.Sometimes
	countsLogLimiter rate.Sometimes
}

// New makes a Writer. It writes a status in which only counts are new at most once in each countsInterval.
func New(rules Rules, counts Counts, countsInterval time.Duration, client dynamic.Interface) *Writer {
	return &Writer{
		rules: rules, counts: counts, countsInterval: countsInterval, client: client,
		records: map[types.UID]*ruleState{}, replicas: map[string]replicaCounts{}, turns: map[string]uint64{},
		retries:          workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](minRetryDelay, maxRetryDelay),
		writeLogLimiter:  rate.Sometimes{Interval: logInterval},
		countsLogLimiter: rate.Sometimes{Interval: logInterval},
	}
}

// Run keeps statuses up to date until ctx ends, and then returns nil. Failed writes are retried. Unwritten statuses are left to
// the next leader.
func (w *Writer) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, w.round, writeInterval)
	return nil
}

// round makes one write if any is due.
func (w *Writer) round(ctx context.Context) {
	now := time.Now()
	if !now.Before(w.nextCollection) {
		w.nextCollection = now.Add(collectInterval)
		if err := w.collectCounts(ctx, now); err != nil && ctx.Err() == nil {
			w.countsLogLimiter.Do(func() {
				logr.FromContextOrDiscard(ctx).Error(err, "Cannot collect counts, the status of policies and quotas keeps the last ones")
			})
		}
	}
	w.refresh(now)
	if r := w.nextDue(now); r != nil && ctx.Err() == nil {
		w.write(ctx, r)
	}
}

// nextDue returns the rule whose status is written next, or nil if none is due.
func (w *Writer) nextDue(now time.Time) *ruleState {
	var changed, counted nextWrite
	for _, r := range w.records {
		every := w.countsInterval
		// A replica that lags behind the stored status must not overwrite it.
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
	// An account that changes rules constantly must not starve the counts of others.
	if changed.isEmpty() || w.wroteChanges && !counted.isEmpty() {
		return counted.choose(w.wroteCluster)
	}
	return changed.choose(w.wroteCluster)
}

// write writes the status of a rule. A failure is retried later, as long as the rule exists.
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
	w.writeLogLimiter.Do(func() { log.Error(err, "Cannot write the status of policies and quotas, will retry") })
}

// patch replaces the status of a rule. The API server accepts a status patch that names another uid, so the patch tests the uid.
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
