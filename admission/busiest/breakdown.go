package busiest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// MaxTracked for Details and Buckets on one replica, shared out by namespace as those of rankings are.
const maxTrackedDetails, maxTrackedBuckets = 512, 256

// Breakdown says what is behind the rows of rankings: who writes what, and which buckets give the tokens.
type Breakdown struct {
	Details []Detail         `json:"details,omitempty"`
	Objects []InvolvedObject `json:"involved,omitempty"`
	Buckets []Bucket         `json:"buckets,omitempty"`
	// Writes is how many counts and notices eventquota itself has written to the API server.
	Writes int64 `json:"settled"`
}

// Detail is what one source wrote to one namespace, of one type and reason and decided by one rule. The names are those
// of rows. Its counts are never too high.
type Detail struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Reason    string `json:"reason"`
	Policy    string `json:"policy"`
	Counts
}

// InvolvedObject is an object that has a row, as clients have written it: not safe to print.
type InvolvedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Workload is what it belongs to, such as a Deployment, if that is known: a name that is safe to print.
	Workload string `json:"workload,omitempty"`
	MainSource
}

// RowName is the name of its row.
func (i *InvolvedObject) RowName() string { return Object.rowName(key{i.Kind, i.Namespace, i.Name}) }

// MainSource is the source that made more than half of some writes, or any source if none did.
type MainSource struct {
	Source string `json:"source"`
	// Margin is an upper bound of its writes less those of all others.
	Margin int64 `json:"lead"`
}

// combine is the MainSource of what two replicas have counted.
func (w MainSource) combine(o MainSource) MainSource {
	switch {
	case w.Source == o.Source:
		return MainSource{w.Source, w.Margin + o.Margin}
	case w.Margin >= o.Margin:
		return MainSource{w.Source, w.Margin - o.Margin}
	}
	return MainSource{o.Source, o.Margin - w.Margin}
}

// Bucket is a token bucket of a quota. Admitted writes have taken a token, and dropped ones found none.
type Bucket struct {
	Key    store.Key `json:"key"`
	Policy string    `json:"policy"`
	Name   string    `json:"name"` // of the limit
	// Scope is what the bucket is for, such as a namespace and a user, made safe to print; empty for all.
	Scope string `json:"for,omitempty"`
	// Namespace is the only one whose Events use the bucket; empty where several may.
	Namespace string `json:"namespace,omitempty"`
	MainSource
	Counts
	Limit store.Limit `json:"limit"`
	// Tokens is how many are left, and Next when there is one more. Both are absent where the store did not say.
	Tokens *int      `json:"tokens,omitempty"`
	Next   time.Time `json:"next,omitzero"`
}

func (m *majority) mainSource() MainSource { return MainSource{Source.rowName(m.source), m.margin} }

// bucketInfo is what a bucket is.
type bucketInfo struct {
	policy, name, scope, namespace string

	limit store.Limit
}

// newBucketInfo is what is said of a bucket.
func newBucketInfo(d *admission.DecidedWrite, b *store.Bucket) *bucketInfo {
	u := &bucketInfo{policy: store.Clip(b.Policy, maxNameBytes), name: store.Clip(b.Name, maxNameBytes)}
	for of, l := range d.Resolution.Limits() {
		if of.Name == b.Policy && l.Name == b.Name {
			u.scope = bucketScope(l.Per, d)
			if of.Identity.Namespace != "" || slices.Contains(l.Per, policy.KeyNamespace) {
				u.namespace = store.Clip(strings.Clone(d.Request.Namespace), maxNameBytes)
			}
		}
	}
	return u
}

// bucketScope says what a bucket that is keyed by parts of a write is for.
func bucketScope(per []policy.KeyPart, d *admission.DecidedWrite) string {
	var words []string
	for _, p := range per {
		var k key
		by := Namespace
		switch p {
		case policy.KeyNamespace:
			k[0] = d.Request.Namespace
		case policy.KeyUser:
			words, k[0] = append(words, "user"), d.Request.UserInfo.Username
		case policy.KeySource:
			by, k = Source, key{d.Source.Component, d.Source.Host}
		case policy.KeyController:
			k[0] = d.Source.Component
		case policy.KeyKind:
			k[0] = d.Request.Object.InvolvedObject.Kind
		case policy.KeyInvolvedObject:
			by, k = Object, key{d.Object.Kind, d.Object.Namespace, d.Object.Name}
		case policy.KeyType:
			k[0] = policy.EventType(d.Request.Object)
		case policy.KeyReason:
			k[0] = d.Request.Object.Reason
		}
		words = append(words, by.rowName(k.truncated()))
	}
	return strings.Join(words, " ")
}

// breakdown is what is behind the rankings of c.
func (c *Counter) breakdown() (w Breakdown) {
	w.Writes = c.writes.Load()
	details, _ := c.details.snapshot()
	for _, r := range details {
		k := r.key
		w.Details = append(w.Details, Detail{k[0], Source.rowName(key{k[1], k[2]}), Reason.rowName(key{k[3], k[4]}), k[5], r.Counts})
	}
	objects, _ := c.by[Object].snapshot()
	for _, r := range objects {
		o := InvolvedObject{Kind: r.key[0], Namespace: r.key[1], Name: r.key[2], MainSource: r.writer.mainSource()}
		if r.workload != nil {
			o.Workload = Object.rowName(*r.workload)
		}
		w.Objects = append(w.Objects, o)
	}
	rows, _ := c.buckets.snapshot()
	for _, r := range rows {
		u := r.bucket
		w.Buckets = append(w.Buckets, Bucket{
			Key: store.Key(r.key), Policy: u.policy, Name: u.name, Scope: u.scope, Namespace: u.namespace, MainSource: r.writer.mainSource(),
			Counts: r.Counts, Limit: u.limit,
		})
	}
	return w
}

// sumBreakdowns adds up what several replicas have counted: at most MaxRows of each, those with the most writes.
func sumBreakdowns(snapshots []Snapshot) (w Breakdown) {
	type name [4]string
	details := map[name]*Detail{}
	involved := map[string]*InvolvedObject{}
	buckets := map[store.Key]*Bucket{}
	for i := range snapshots {
		s := &snapshots[i].Breakdown
		w.Writes += s.Writes
		for _, d := range s.Details {
			accumulate(details, name{d.Namespace, d.Source, d.Reason, d.Policy}, d, func(sum *Detail) { sum.Counts = sum.Add(d.Counts) })
		}
		for _, o := range s.Objects {
			accumulate(involved, o.RowName(), o, func(sum *InvolvedObject) {
				sum.MainSource, sum.Workload = sum.combine(o.MainSource), cmp.Or(sum.Workload, o.Workload)
			})
		}
		for _, b := range s.Buckets {
			accumulate(buckets, b.Key, b, func(sum *Bucket) {
				sum.MainSource, sum.Counts, sum.Limit = sum.combine(b.MainSource), sum.Add(b.Counts), b.Limit
			})
		}
	}
	w.Details = topRows(details, func(a, b *Detail) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Policy, b.Policy))
	})
	w.Objects = topRows(involved, func(a, b *InvolvedObject) int {
		return cmp.Or(cmp.Compare(b.Margin, a.Margin), cmp.Compare(a.RowName(), b.RowName()))
	})
	w.Buckets = topRows(buckets, func(a, b *Bucket) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), slices.Compare(a.Key[:], b.Key[:]))
	})
	w.Buckets = w.Buckets[:min(maxTrackedBuckets, len(w.Buckets))]
	return w
}

// accumulate adds a value of a key to a sum.
func accumulate[K comparable, V any](sums map[K]*V, k K, v V, add func(sum *V)) {
	if sum := sums[k]; sum != nil {
		add(sum)
		return
	}
	sums[k] = &v
}

// topRows are the first MaxRows.
func topRows[K comparable, V any](sums map[K]*V, compare func(a, b *V) int) []V {
	all := make([]V, 0, len(sums))
	for _, v := range sums {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b V) int { return compare(&a, &b) })
	return all[:min(MaxRows, len(all))]
}
