package status

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// record is what a Writer knows of one policy.
type record struct {
	report watch.Report
	// stored is the status that the API server has, as of version.
	stored  v1alpha1.PolicyStatus
	version string
	// sum is what was counted of the generation that governs; nil when that is not known.
	sum *sum

	wrote     time.Time // when the status was written last, by whichever replica
	notBefore time.Time // when to try again after a failure
	next      *v1alpha1.PolicyStatus
}

// id names what is counted; it is the zero ID when nothing governs.
func (r *record) id() busiest.PolicyID {
	if r.report.Governing == 0 {
		return busiest.PolicyID{}
	}
	return busiest.PolicyID{UID: string(r.report.UID), Generation: r.report.Governing}
}

// learn brings the records up to date with reports and stored statuses.
func (w *Writer) learn(now time.Time) {
	reports := w.policies.Reports()
	there := make(map[types.UID]bool, len(reports))
	for _, report := range reports {
		there[report.UID] = true
		r := w.records[report.UID]
		if r == nil {
			r = &record{}
			w.records[report.UID] = r
		}
		before := r.id()
		r.report = report
		if r.id() != before {
			r.sum = nil
		}
		if u := w.policies.Object(report.Identity); u != nil && u.GetResourceVersion() != r.version {
			r.read(u, now)
		}
	}
	for uid, r := range w.records {
		if !there[uid] {
			w.retries.Forget(r.report.UID)
			delete(w.records, uid)
		}
	}
}

// read takes in the status that the API server has. One that cannot be decoded
// counts as none.
func (r *record) read(u *unstructured.Unstructured, now time.Time) {
	r.version = u.GetResourceVersion()
	var p struct {
		Status v1alpha1.PolicyStatus `json:"status"`
	}
	if status, ok := u.Object["status"]; ok {
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": status}, &p)
		if err != nil {
			p.Status = v1alpha1.PolicyStatus{}
		}
	}
	r.stored = p.Status
	if at := written(u); at.After(r.wrote) {
		r.wrote = at.Add(time.Second)
		if r.wrote.After(now) {
			r.wrote = now // the API server's clock may be ahead of ours
		}
	}
}

// written is when a replica wrote the status last, cut to a second, by the API
// server's clock.
func written(u *unstructured.Unstructured) time.Time {
	for _, f := range u.GetManagedFields() {
		if f.Manager == manager && f.Subresource == "status" && f.Time != nil {
			return f.Time.Time
		}
	}
	return time.Time{}
}

// resourceOf is where policies of a kind are.
func resourceOf(i *policy.Identity) schema.GroupVersionResource {
	if i.Kind == v1alpha1.KindClusterEventPolicy {
		return v1alpha1.ClusterEventPolicies()
	}
	return v1alpha1.EventPolicies()
}
