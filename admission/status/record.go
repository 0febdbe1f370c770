package status

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// record is what a Writer knows of one rule.
type record struct {
	report watch.Report
	// shadowed is what stands before it, so that it can never decide.
	shadowed []string
	// stored is the status that the API server has, as of version.
	stored  v1alpha1.Status
	version string
	// sum is what was counted of the generation that governs; nil when that is not known.
	sum *sum

	wrote     time.Time // when the status was written last, by whichever replica
	notBefore time.Time // when to try again after a failure
	next      *v1alpha1.Status
	urgent    bool // next says more than counts do
}

// id names what is counted, if anything governs.
func (r *record) id() busiest.RuleID {
	return busiest.RuleID{UID: string(r.report.UID), Generation: r.report.Governing}
}

// learn brings the records up to date with reports and stored statuses.
func (w *Writer) learn(now time.Time) {
	reports, changed := w.rules.Reports(), map[string]bool{} // namespaces
	exists := make(map[types.UID]bool, len(reports))
	for _, report := range reports {
		exists[report.UID] = true
		r := w.records[report.UID]
		if r == nil {
			r = &record{}
			w.records[report.UID] = r
		}
		before := r.report
		r.report = report
		if report.Governing != before.Governing {
			r.sum = nil
		}
		if report.Governing != before.Governing || report.Mode != before.Mode {
			changed[report.Namespace] = true
		}
		if report.Object.GetResourceVersion() != r.version {
			r.read(report.Object, now)
		}
	}
	for uid, r := range w.records {
		if !exists[uid] {
			w.retries.Forget(uid)
			delete(w.records, uid)
			changed[r.report.Namespace] = true
		}
	}
	w.learnShadows(changed)
}

// learnShadows learns what stands before the rules of namespaces that have changed, and of all of them after a
// change of the cluster's.
func (w *Writer) learnShadows(changed map[string]bool) {
	if len(changed) == 0 {
		return
	}
	found := map[string]map[string][]string{}
	for _, r := range w.records {
		namespace := r.report.Namespace
		if !changed[namespace] && !changed[""] {
			continue
		}
		if found[namespace] == nil {
			found[namespace] = w.rules.Shadowed(namespace)
		}
		r.shadowed = found[namespace][r.report.String()]
	}
}

// read takes in the status that the API server has. One that cannot be decoded is none.
func (r *record) read(u *unstructured.Unstructured, now time.Time) {
	r.version = u.GetResourceVersion()
	var p struct {
		Status v1alpha1.Status `json:"status"`
	}
	r.stored = v1alpha1.Status{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p) == nil {
		r.stored = p.Status
	}
	if at := written(u); at.After(r.wrote) {
		r.wrote = at.Add(time.Second)
		if r.wrote.After(now) {
			r.wrote = now // the API server's clock may be ahead of ours
		}
	}
}

// written is when a replica wrote the status last, cut to a second, by the API server's clock.
func written(u *unstructured.Unstructured) time.Time {
	for _, f := range u.GetManagedFields() {
		if f.Manager == manager && f.Subresource == "status" && f.Time != nil {
			return f.Time.Time
		}
	}
	return time.Time{}
}

// countsTimeout bounds a look at what replicas have counted.
const countsTimeout = 5 * time.Second

// Counts are what replicas have counted.
type Counts interface {
	// All are the snapshots of all replicas.
	All(ctx context.Context) ([]busiest.Snapshot, error)
	// Save keeps sums, as JSON, for the next leader. Load reads into sums what was saved last, if anything.
	Save(ctx context.Context, sums any) error
	Load(ctx context.Context, sums any) error
}

// count adds up what replicas have counted since the last look.
func (w *Writer) count(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countsTimeout)
	defer cancel()
	if w.sums == nil {
		if err := w.load(ctx); err != nil {
			return err
		}
	}
	snapshots, err := w.counts.All(ctx)
	if err != nil {
		return fmt.Errorf("read what was decided: %w", err)
	}
	w.sums.add(now, snapshots)
	w.share(now) // what is saved has been restored
	if err := w.counts.Save(ctx, w.sums); err != nil {
		return fmt.Errorf("save what was decided: %w", err)
	}
	return nil
}

// load goes on from what the last leader has saved.
func (w *Writer) load(ctx context.Context) error {
	s := newSums()
	if err := w.counts.Load(ctx, s); err != nil {
		return fmt.Errorf("read what the last leader has saved: %w", err)
	}
	maps.DeleteFunc(s.Rules, func(_ busiest.RuleID, p *sum) bool { return p == nil })
	if s.Seen == nil || s.Rules == nil { // no leader writes them so
		s = newSums()
	}
	if s.At.IsZero() {
		for _, r := range w.records {
			if r.wrote.After(s.lost) {
				s.lost = r.wrote
			}
		}
	}
	w.sums = s
	return nil
}

// share hands the sums to the records.
func (w *Writer) share(now time.Time) {
	if w.sums == nil {
		return
	}
	for _, r := range w.records {
		if r.report.Governing == 0 {
			continue
		}
		r.sum = w.sums.of(now, r.id())
		r.sum.Wanted = now
		if !r.sum.Restored && goesOn(&r.stored, &r.report) {
			r.sum.restore(r.stored.Total)
		}
		r.sum.Restored = true
	}
}
