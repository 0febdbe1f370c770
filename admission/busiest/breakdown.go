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

// These bound the Details and Buckets that one replica tracks. Namespaces share them as they share MaxTracked.
const maxTrackedDetails, maxTrackedBuckets = 512, 256

// Breakdown has the details behind the rows of rankings: which source writes what, and which buckets give the tokens.
type Breakdown struct {
	Details []Detail         `json:"details,omitempty"`
	Objects []InvolvedObject `json:"involved,omitempty"`
	Buckets []Bucket         `json:"buckets,omitempty"`
	// Writes is the number of counts and notices that eventquota itself has written to the API server.
	Writes int64 `json:"settled"`
}

// Detail counts the writes of one source to one namespace, of one type and reason, decided by one rule. Its names are those of
// rows. Its counts are never too high.
type Detail struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Reason    string `json:"reason"`
	Policy    string `json:"policy"`
	Counts
}

// InvolvedObject is an object that has a row. Its kind, namespace and name are as clients wrote them: not safe to print.
type InvolvedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Workload names the workload that the object belongs to, such as a Deployment, if it is known. It is safe to print.
	Workload string `json:"workload,omitempty"`
	MainSource
}

// RowName returns the name of the object's row.
func (i *InvolvedObject) RowName() string { return Object.rowName(key{i.Kind, i.Namespace, i.Name}) }

// MainSource is the source that made more than half of some writes, or any source if none did.
type MainSource struct {
	Source string `json:"source"`
	// Margin is an upper bound of its writes minus those of all other sources.
	Margin int64 `json:"lead"`
}

// combine returns the MainSource of the writes that two replicas have counted.
func (m MainSource) combine(o MainSource) MainSource {
	switch {
	case m.Source == o.Source:
		return MainSource{m.Source, m.Margin + o.Margin}
	case m.Margin >= o.Margin:
		return MainSource{m.Source, m.Margin - o.Margin}
	}
	return MainSource{o.Source, o.Margin - m.Margin}
}

// Bucket is a token bucket of a quota. Admitted writes took a token from it, and dropped writes found none.
type Bucket struct {
	Key    store.Key `json:"key"`
	Policy string    `json:"policy"`
	Name   string    `json:"name"` // of the limit
	// Scope names whose bucket it is, such as a namespace and a user; empty if all share it. It is safe to print.
	Scope string `json:"for,omitempty"`
	// Namespace is the only one whose Events use the bucket; empty if several may.
	Namespace string `json:"namespace,omitempty"`
	MainSource
	Counts
	Limit store.Limit `json:"limit"`
	// Tokens is the number left, and Next the time of the next token. Both are absent if the store did not return them.
	Tokens *int      `json:"tokens,omitempty"`
	Next   time.Time `json:"next,omitzero"`
}

func (m *majority) mainSource() MainSource { return MainSource{Source.rowName(m.source), m.margin} }

// bucketInfo describes a bucket.
type bucketInfo struct {
	policy, name, scope, namespace string

	limit store.Limit
}

// newBucketInfo describes a bucket that decided d.
func newBucketInfo(d *admission.DecidedWrite, b *store.Bucket) *bucketInfo {
	info := &bucketInfo{policy: store.Clip(b.Policy, maxNameBytes), name: store.Clip(b.Name, maxNameBytes)}
	if quota, limit := d.Resolution.Limit(b.Policy, b.Name); limit != nil {
		info.scope = bucketScope(limit.Per, d)
		if quota.SeparatesNamespaces(limit) {
			info.namespace = store.Clip(strings.Clone(d.Request.Namespace), maxNameBytes)
		}
	}
	return info
}

// bucketScope names the parts of a write that select its bucket.
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

// breakdown returns the details behind the rankings of c.
func (c *Counter) breakdown() (b Breakdown) {
	b.Writes = c.writes.Load()
	details, _ := c.details.snapshot()
	for _, r := range details {
		k := r.key
		b.Details = append(b.Details, Detail{k[0], Source.rowName(key{k[1], k[2]}), Reason.rowName(key{k[3], k[4]}), k[5], r.Counts})
	}
	objects, _ := c.by[Object].snapshot()
	for _, r := range objects {
		o := InvolvedObject{Kind: r.key[0], Namespace: r.key[1], Name: r.key[2], MainSource: r.writer.mainSource()}
		if r.workload != nil {
			o.Workload = Object.rowName(*r.workload)
		}
		b.Objects = append(b.Objects, o)
	}
	rows, _ := c.buckets.snapshot()
	for _, r := range rows {
		info := r.bucket
		b.Buckets = append(b.Buckets, Bucket{
			Key: store.Key(r.key), Policy: info.policy, Name: info.name, Scope: info.scope, Namespace: info.namespace, MainSource: r.writer.mainSource(),
			Counts: r.Counts, Limit: info.limit,
		})
	}
	return b
}

// sumBreakdowns adds up the breakdowns of several replicas. It keeps at most MaxRows of each kind, those with the most writes.
func sumBreakdowns(snapshots []Snapshot) (total Breakdown) {
	type name [4]string
	details := map[name]*Detail{}
	involved := map[string]*InvolvedObject{}
	buckets := map[store.Key]*Bucket{}
	for i := range snapshots {
		s := &snapshots[i].Breakdown
		total.Writes += s.Writes
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
	total.Details = topRows(details, func(a, b *Detail) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Policy, b.Policy))
	})
	total.Objects = topRows(involved, func(a, b *InvolvedObject) int {
		return cmp.Or(cmp.Compare(b.Margin, a.Margin), cmp.Compare(a.RowName(), b.RowName()))
	})
	total.Buckets = topRows(buckets, func(a, b *Bucket) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), slices.Compare(a.Key[:], b.Key[:]))
	})
	total.Buckets = total.Buckets[:min(maxTrackedBuckets, len(total.Buckets))]
	return total
}

// accumulate adds a value to the sum of its key.
func accumulate[K comparable, V any](sums map[K]*V, k K, v V, add func(sum *V)) {
	if sum := sums[k]; sum != nil {
		add(sum)
		return
	}
	sums[k] = &v
}

// topRows returns the first MaxRows values by compare.
func topRows[K comparable, V any](sums map[K]*V, compare func(a, b *V) int) []V {
	all := make([]V, 0, len(sums))
	for _, v := range sums {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b V) int { return compare(&a, &b) })
	return all[:min(MaxRows, len(all))]
}
