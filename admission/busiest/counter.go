package busiest

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Places is how many rows of each By a replica follows. That many are counted exactly. Beyond, each namespace has at
// least an equal part of them, if it needs that, or competes with all others for the rest; and of k places in which it
// competes with itself, anything that made more than a k-th of its writes is always among them. What a row may miss,
// it says.
const Places = 256

// maxPart is how many bytes of a text are kept: the longest name that an object can have. Clients may send more.
const maxPart = 253

// Counter counts what one replica decides: by each By (at most 1 MB, for Places rows), and by rules with the
// sources and objects that they refused. It may be used concurrently.
type Counter struct {
	replica string
	since   time.Time
	seed    maphash.Seed
	by      map[By]*sketch[key]
	rules   *sketch[RuleID]
}

// NewCounter makes a Counter that begins to count now, for a replica of a unique name. It follows up to places
// rows of each By.
func NewCounter(replica string, now time.Time, places int) *Counter {
	c := &Counter{
		replica: replica, since: now.UTC(), seed: maphash.MakeSeed(),
		by: map[By]*sketch[key]{}, rules: newSketch(rulePlaces, RuleID.detached),
	}
	for _, by := range All() {
		c.by[by] = newSketch(places, key.detached)
	}
	return c
}

// Decided counts what became of one Event write. It takes at most six locks for a moment, one after the other,
// allocates only for what is not followed yet, and keeps no part of d. Decisions of audited rules are in no ranking.
// The status of a rule in force counts only what it did, not what it would do if others were audited too; the
// built-in default has no status.
func (c *Counter) Decided(d *admission.Decided) {
	e, namespace := d.Request.Object, d.Request.Namespace
	if one := countsOf(d.Verdict); !d.Audited {
		c.countBy(Namespace, namespace, key{namespace}, one)
		c.countBy(Source, namespace, key{d.Source.Component, d.Source.Host}, one)
		c.countBy(Object, namespace, key{d.Object.Kind, d.Object.Namespace, d.Object.Name}, one)
		c.countBy(Reason, namespace, key{e.Type, e.Reason}, one)
		c.countBy(Policy, namespace, key{d.Rule.Name}, one)
	}
	if i := d.Rule.Identity; i.UID != "" && (!d.Audited || d.Rule.Mode == policy.Audit) {
		c.CountRule(i.Namespace, RuleID{UID: string(i.UID), Generation: i.Generation}, d.Verdict, Subject{Object: d.Object, Source: d.Source})
	}
	for _, err := range d.Errors {
		c.countError(err)
	}
}

// countBy counts one write of k, of which it keeps no part.
func (c *Counter) countBy(by By, namespace string, k key, one Counts) {
	for i := range k {
		k[i] = store.Clip(k[i], maxPart)
	}
	s := c.by[by]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(c.seed, store.Clip(namespace, maxPart), k, one)
}

// Snapshot is what was counted until now. Each ranking is of one moment; two may differ by the writes that are
// being counted.
func (c *Counter) Snapshot(now time.Time) Snapshot {
	s := Snapshot{
		Replica: Replica{Name: c.replica, Since: c.since, At: now.UTC()},
		By:      map[By]Ranking{},
		Rules:   c.ruleCounts(),
	}
	for by, name := range names() {
		s.By[by] = ranking(c.by[by], name)
	}
	return s
}

// Counts are Event writes by what became of them, from 0.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// countsOf is one write with that verdict.
func countsOf(v store.Verdict) Counts {
	switch v {
	case store.Admit, store.Aggregate:
		return Counts{Admitted: 1}
	case store.Merge:
		return Counts{Merged: 1}
	case store.Drop, store.Deny:
	}
	return Counts{Dropped: 1}
}

// Count counts one write more.
func (c *Counts) Count(v store.Verdict) { *c = c.Add(countsOf(v)) }

// Matched is how many writes were decided.
func (c Counts) Matched() int64 { return c.Admitted + c.Merged + c.Dropped }

// Add is the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Admitted + d.Admitted, c.Merged + d.Merged, c.Dropped + d.Dropped}
}

// Since is by how much c exceeds before. If c has less of anything, counting began anew in between, and it is c.
func (c Counts) Since(before Counts) Counts {
	if c.Admitted < before.Admitted || c.Merged < before.Merged || c.Dropped < before.Dropped {
		return c
	}
	return Counts{c.Admitted - before.Admitted, c.Merged - before.Merged, c.Dropped - before.Dropped}
}

// sketch finds the busiest keys among any number in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi
// 2005), but shared out by namespace. When it is full, a new key takes the place and the weight of the lightest one:
// of the namespaces that have more places than its own; if there are none, of its own namespace; and where neither
// has more than a 32nd of the places, of all. So a namespace that invents keys displaces its own.
type sketch[K comparable] struct {
	mu       sync.Mutex // taken by its users, who may guard more with it
	places   int
	detached func(K) K // a key in memory of its own
	total    Counts
	index    map[uint64]int32 // the place, by the seeded hash of a key, so that no client can cause collisions
	rows     []row[K]
	// weights are those of rows, those of earlier keys in the same place included. They are apart so that
	// few cache lines are read to find the lightest.
	weights  []int64
	holders  map[string]*holder
	followed int      // sources of rules
	lost     int64    // no key without a place had more
	_        [64]byte // the next lock is in another cache line
}

// holder is a namespace that has places.
type holder struct {
	namespace string
	places    int
	followed  int // sources of its rules
}

type row[K comparable] struct {
	hash    uint64
	key     K
	holder  *holder
	refused *sketch[Subject] // of a rule that refused any
	errors  Errors           // of a rule
	missing int64            // how many of its writes may have come before it had this place
	Counts
}

func newSketch[K comparable](places int, detached func(K) K) *sketch[K] {
	return &sketch[K]{places: places, detached: detached, index: map[uint64]int32{}, holders: map[string]*holder{}}
}

// count counts one write of k in its row. The namespace is that which made the key, and matters for a new one.
func (s *sketch[K]) count(seed maphash.Seed, namespace string, k K, one Counts) *row[K] {
	hash := maphash.Comparable(seed, k)
	s.total = s.total.Add(one)
	i, known := s.index[hash]
	if !known {
		h := s.holders[namespace]
		if h == nil {
			h = &holder{namespace: strings.Clone(namespace)}
			s.holders[h.namespace] = h
		}
		h.places++
		i = s.place(h)
		s.index[hash] = i
		s.rows[i] = row[K]{hash: hash, key: s.detached(k), holder: h, missing: s.lost}
	}
	s.rows[i].Counts = s.rows[i].Add(one)
	s.weights[i]++
	return &s.rows[i]
}

// place is a new place for a namespace, or one that another key loses.
func (s *sketch[K]) place(h *holder) int32 {
	n := len(s.rows)
	if n < s.places {
		s.rows, s.weights = append(s.rows, row[K]{}), append(s.weights, 0)
		return int32(n)
	}
	few := s.places / 32
	lightest, larger, own := -1, -1, -1
	for i, w := range s.weights {
		if lightest < 0 || w < s.weights[lightest] {
			lightest = i
		}
		of := s.rows[i].holder
		if of.places > max(h.places, few) && (larger < 0 || w < s.weights[larger]) {
			larger = i
		}
		if of == h && (own < 0 || w < s.weights[own]) {
			own = i
		}
	}
	switch {
	case larger >= 0:
		lightest = larger
	case own >= 0 && h.places > few:
		lightest = own
	}
	s.displace(lightest)
	return int32(lightest)
}

// displace takes the place of a key.
func (s *sketch[K]) displace(i int) {
	r := &s.rows[i]
	s.lost = max(s.lost, r.Matched()+r.missing)
	delete(s.index, r.hash)
	if r.refused != nil {
		r.holder.followed -= len(r.refused.rows)
		s.followed -= len(r.refused.rows)
	}
	if r.holder.places--; r.holder.places == 0 {
		delete(s.holders, r.holder.namespace)
	}
}

// key is what a row of a Ranking is found by: parts of its name, empty ones at the end.
type key [3]string

// detached is k in memory of its own: its parts may be those of a long request.
func (k key) detached() key {
	for i := range k {
		k[i] = strings.Clone(k[i])
	}
	return k
}

// ranking is what s has counted. name writes a key.
func ranking(s *sketch[key], name func(key) string) Ranking {
	s.mu.Lock()
	r := Ranking{Total: s.total, Missing: s.lost}
	rows := slices.Clone(s.rows)
	s.mu.Unlock()
	r.Rows = make([]Row, len(rows))
	for i, one := range rows {
		r.Rows[i] = Row{Name: name(one.key), Counts: one.Counts, Missing: one.missing}
	}
	r.sort()
	return r
}
