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

// Places for Details and Buckets on one replica, shared out by namespace as those of rankings are.
const detailPlaces, bucketPlaces = 512, 256

// Within says what is behind the rows of rankings: who writes what, and which buckets give the tokens.
type Within struct {
	Details  []Detail   `json:"details,omitempty"`
	Involved []Involved `json:"involved,omitempty"`
	Buckets  []Bucket   `json:"buckets,omitempty"`
	// Settled is how many counts and notices eventquota itself has written to the API server.
	Settled int64 `json:"settled"`
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

// Involved is an object that has a row, as clients have written it: not safe to print.
type Involved struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Workload is what it belongs to, such as a Deployment, if that is known: a name that is safe to print.
	Workload string `json:"workload,omitempty"`
	Writer
}

// Row is the name of its row.
func (i *Involved) Row() string { return Object.name(key{i.Kind, i.Namespace, i.Name}) }

// Writer is the source that made more than half of some writes, or any source if none did.
type Writer struct {
	Source string `json:"source"`
	// Lead is an upper bound of its writes less those of all others.
	Lead int64 `json:"lead"`
}

// with is the Writer of what two replicas have counted.
func (w Writer) with(o Writer) Writer {
	switch {
	case w.Source == o.Source:
		return Writer{w.Source, w.Lead + o.Lead}
	case w.Lead >= o.Lead:
		return Writer{w.Source, w.Lead - o.Lead}
	}
	return Writer{o.Source, o.Lead - w.Lead}
}

// Bucket is a token bucket of a quota. Admitted writes have taken a token, and dropped ones found none.
type Bucket struct {
	Key    store.Key `json:"key"`
	Policy string    `json:"policy"`
	Name   string    `json:"name"` // of the limit
	// For is what the bucket is for, such as a namespace and a user, made safe to print; empty for all.
	For string `json:"for,omitempty"`
	// Namespace is the only one whose Events use the bucket; empty where several may.
	Namespace string `json:"namespace,omitempty"`
	Writer
	Counts
	Limit store.Limit `json:"limit"`
	// Tokens is how many are left, and Next when there is one more. Both are absent where the store did not say.
	Tokens *int      `json:"tokens,omitempty"`
	Next   time.Time `json:"next,omitzero"`
}

func (m *majority) writer() Writer { return Writer{Source.name(m.source), m.lead} }

// used is what a bucket is.
type used struct {
	policy, name, words, namespace string

	limit store.Limit
}

// newUsed is what is said of a bucket.
func newUsed(d *admission.Decided, b *store.Bucket) *used {
	u := &used{policy: store.Clip(b.Policy, maxPart), name: store.Clip(b.Name, maxPart)}
	for of, l := range d.Governing.Limits() {
		if of.Name == b.Policy && l.Name == b.Name {
			u.words = wordsFor(l.Per, d)
			if of.Identity.Namespace != "" || slices.Contains(l.Per, policy.KeyNamespace) {
				u.namespace = store.Clip(strings.Clone(d.Request.Namespace), maxPart)
			}
		}
	}
	return u
}

// wordsFor says what a bucket that is keyed by parts of a write is for.
func wordsFor(per []policy.KeyPart, d *admission.Decided) string {
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
			k[0] = policy.Type(d.Request.Object)
		case policy.KeyReason:
			k[0] = d.Request.Object.Reason
		}
		words = append(words, by.name(k.clipped()))
	}
	return strings.Join(words, " ")
}

// within is what is behind the rankings of c.
func (c *Counter) within() (w Within) {
	w.Settled = c.settled.Load()
	details, _ := c.details.all()
	for _, r := range details {
		k := r.key
		w.Details = append(w.Details, Detail{k[0], Source.name(key{k[1], k[2]}), Reason.name(key{k[3], k[4]}), k[5], r.Counts})
	}
	objects, _ := c.by[Object].all()
	for _, r := range objects {
		o := Involved{Kind: r.key[0], Namespace: r.key[1], Name: r.key[2], Writer: r.by.writer()}
		if r.of != nil {
			o.Workload = Object.name(*r.of)
		}
		w.Involved = append(w.Involved, o)
	}
	rows, _ := c.buckets.all()
	for _, r := range rows {
		u := r.used
		w.Buckets = append(w.Buckets, Bucket{
			Key: store.Key(r.key), Policy: u.policy, Name: u.name, For: u.words, Namespace: u.namespace, Writer: r.by.writer(),
			Counts: r.Counts, Limit: u.limit,
		})
	}
	return w
}

// addWithin adds up what several replicas have counted: at most MaxRows of each, those with the most writes.
func addWithin(snapshots []Snapshot) (w Within) {
	type name [4]string
	details := map[name]*Detail{}
	involved := map[string]*Involved{}
	buckets := map[store.Key]*Bucket{}
	for i := range snapshots {
		s := &snapshots[i].Within
		w.Settled += s.Settled
		for _, d := range s.Details {
			addTo(details, name{d.Namespace, d.Source, d.Reason, d.Policy}, d, func(sum *Detail) { sum.Counts = sum.Add(d.Counts) })
		}
		for _, o := range s.Involved {
			addTo(involved, o.Row(), o, func(sum *Involved) { sum.Writer, sum.Workload = sum.with(o.Writer), cmp.Or(sum.Workload, o.Workload) })
		}
		for _, b := range s.Buckets {
			addTo(buckets, b.Key, b, func(sum *Bucket) {
				sum.Writer, sum.Counts, sum.Limit = sum.with(b.Writer), sum.Add(b.Counts), b.Limit
			})
		}
	}
	w.Details = most(details, func(a, b *Detail) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Policy, b.Policy))
	})
	w.Involved = most(involved, func(a, b *Involved) int {
		return cmp.Or(cmp.Compare(b.Lead, a.Lead), cmp.Compare(a.Row(), b.Row()))
	})
	w.Buckets = most(buckets, func(a, b *Bucket) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), slices.Compare(a.Key[:], b.Key[:]))
	})
	w.Buckets = w.Buckets[:min(bucketPlaces, len(w.Buckets))]
	return w
}

// addTo adds a value of a key to a sum.
func addTo[K comparable, V any](sums map[K]*V, k K, v V, add func(sum *V)) {
	if sum := sums[k]; sum != nil {
		add(sum)
		return
	}
	sums[k] = &v
}

// most are the first MaxRows.
func most[K comparable, V any](sums map[K]*V, compare func(a, b *V) int) []V {
	all := make([]V, 0, len(sums))
	for _, v := range sums {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b V) int { return compare(&a, &b) })
	return all[:min(MaxRows, len(all))]
}
