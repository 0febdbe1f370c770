package busiest

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	// MaxTracked is how many rows of each Dimension a replica follows. That many are counted exactly. Beyond, each namespace has at
	// least an equal part of them, if it needs that, or competes with all others for the rest; and of k places in which
	// it competes with itself, anything that made more than a k-th of its writes is always among them.
	MaxTracked = 256
	// maxTrackedRules is how many generations of rules a replica follows, and maxTrackedSources how many sources and objects that
	// rules refused, of all rules.
	maxTrackedRules, maxTrackedSources = 4096, 512
	// maxNameBytes is how many bytes of a text are kept: the longest name that an object can have. Clients may send more.
	maxNameBytes = 253
)

// RankingCounter counts Event writes by each Dimension: at most 1 MB, for MaxTracked rows. They may be used concurrently.
type RankingCounter struct {
	by map[Dimension]*sketch[key]
}

// NewRankingCounter returns a RankingCounter that follows up to places rows of each Dimension.
func NewRankingCounter(places int) RankingCounter {
	r := RankingCounter{by: map[Dimension]*sketch[key]{}}
	for _, by := range Dimensions() {
		r.by[by] = newSketch[key](places)
	}
	return r
}

// Counter counts the decisions of one replica in a RankingCounter, their Breakdown (at most 2 MB), and by rules with the sources and objects
// that they refused (at most 4 MB). It may be used concurrently.
type Counter struct {
	RankingCounter

	replica string
	since   time.Time
	rules   *sketch[RuleID]
	refused *sketch[refusal]
	details *sketch[detail]
	buckets *sketch[bucketKey]
	writes  atomic.Int64
}

// NewCounter makes a Counter for a replica of a unique name. It follows up to places rows of each Dimension.
func NewCounter(replica string, now time.Time, places int) *Counter {
	return &Counter{
		RankingCounter: NewRankingCounter(places), replica: replica, since: now.UTC(),
		rules: newSketch[RuleID](maxTrackedRules), refused: newSketch[refusal](maxTrackedSources),
		details: newSketch[detail](maxTrackedDetails), buckets: newSketch[bucketKey](maxTrackedBuckets),
	}
}

// Write is one Event write as Rankings count it. Its texts are those of the Event.
type Write struct {
	namespace                    string
	source, object, reason, rule key
	workload                     key // of object; empty where that is not known
	one                          Counts
}

// WriteOf is the write of a decision. Rankings count those that are not Audited.
func WriteOf(d *admission.DecidedWrite) Write {
	e, w := d.Request.Object, &d.Workload
	return Write{
		namespace: store.Clip(d.Request.Namespace, maxNameBytes),
		source:    key{d.Source.Component, d.Source.Host}.truncated(),
		object:    key{d.Object.Kind, d.Object.Namespace, d.Object.Name}.truncated(),
		reason:    key{e.Type, e.Reason}.truncated(),
		rule:      key{d.Rule.Name}.truncated(),
		workload:  key{w.Kind, w.Namespace, w.Name}.truncated(),
		one:       countOne(d.Verdict),
	}
}

// Count counts a write, and keeps no part of it.
func (r *RankingCounter) Count(w *Write) { r.count(w) }

// count returns the detail of w, whose texts are kept.
func (r *RankingCounter) count(w *Write) detail {
	in := r.by[Namespace].count(w.namespace, key{w.namespace}, w.one)
	from := r.by[Source].count(w.namespace, w.source, w.one)
	r.by[Object].countWithSource(w.namespace, w.object, w.one, from, w.workload)
	why := r.by[Reason].count(w.namespace, w.reason, w.one)
	rule := r.by[Policy].count(w.namespace, w.rule, w.one)
	return detail{in[0], from[0], from[1], why[0], why[1], rule[0]}
}

// CountDecision counts what became of one Event write. It takes a few locks, mostly one after the other and each for a moment;
// allocates only for what is not followed yet, and keeps no part of d. Decisions of audited rules are in no ranking. The status of a rule in force counts only what it did, not what it would do if others were
// audited too; the built-in default has no status.
func (c *Counter) CountDecision(d *admission.DecidedWrite) {
	w := WriteOf(d)
	if !d.Audited {
		within := c.count(&w)
		c.details.count(within[0], within, w.one)
		c.countBuckets(d, key{within[1], within[2]}, w.one)
	}
	if i := &d.Rule.Identity; i.UID != "" && (!d.Audited || d.Rule.Mode == policy.Audit) {
		c.rules.count(i.Namespace, ruleID(i), w.one)
		if w.one.Admitted == 0 {
			object := w.object
			if !d.Workload.IsZero() { // of which there are fewer, and which say more than a pod's name
				object = w.workload
			}
			c.refused.count(w.namespace, refusal{ruleID(i), w.source, object}, w.one)
		}
	}
	for _, err := range d.Errors {
		c.recordError(err)
	}
	for _, r := range []*policy.Rule{d.OverflowQuota, d.OverflowPolicy} {
		if r != nil && r.Identity.UID != "" && (!d.Audited || r.Mode == policy.Audit) {
			c.countOverflow(&r.Identity, w.namespace)
		}
	}
}

// CountWrite counts a count or notice that was written to the API server.
func (c *Counter) CountWrite() { c.writes.Add(1) }

// countBuckets counts a write that took a token of each bucket, or was dropped by one. It allocates only for buckets that are
// not followed yet.
func (c *Counter) countBuckets(d *admission.DecidedWrite, source key, one Counts) {
	if one.Merged > 0 || len(d.Quotas) == 0 {
		return
	}
	s := c.buckets
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range d.Quotas {
		b := &d.Quotas[i]
		if b.Name == "" || one.Dropped > 0 && (b.Name != d.Bucket || b.Policy != d.Rule.Name) {
			continue
		}
		k := bucketKey(b.Key)
		var u *bucketInfo
		if _, known := s.index[k]; !known {
			u = newBucketInfo(d, b)
		}
		var namespace string // a bucket that several namespaces share is of none
		if u != nil {
			namespace = u.namespace
		}
		r := s.increment(namespace, k, one)
		if r.bucket == nil {
			r.bucket = u
		}
		r.writer.vote(source)
		r.bucket.limit = store.Limit{Burst: b.Burst, Every: b.Every, Reserve: max(r.bucket.limit.Reserve, b.Reserve)}
	}
}

// Counts are Event writes by what became of them, from 0.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// countOne is one write with that verdict.
func countOne(v store.Verdict) Counts {
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
func (c *Counts) Count(v store.Verdict) { *c = c.Add(countOne(v)) }

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
type sketch[K sketchKey[K]] struct {
	mu         sync.Mutex
	capacity   int
	total      Counts
	index      map[K]int32 // the place of a key
	rows       []row[K]
	searchFrom int // where the next search for the lightest begins: those before it have mostly become heavier
	shares     map[string]*share
	_          [64]byte // the next lock is in another cache line
}

// sketchKey is what a sketch counts.
type sketchKey[K any] interface {
	comparable
	// clone is the key in memory of its own: its parts may be those of a long request.
	clone() K
}

// share is a namespace that has places.
type share struct {
	namespace string
	rowCount  int
	minWeight int64 // none of its rows is lighter
	isVictim  bool  // whether a row of it is displaced next
}

type row[K any] struct {
	key      K
	share    *share
	weight   int64       // with that of earlier keys in the same place
	writer   majority    // who writes, of an object and a bucket
	workload *key        // the workload of an object, once it is known
	bucket   *bucketInfo // of a bucket
	failure  string      // of a rule
	// overflow and overflowIn are RuleCounts' of a rule.
	overflow   int64
	overflowIn string
	Counts
}

func newSketch[K sketchKey[K]](places int) *sketch[K] {
	return &sketch[K]{capacity: places, index: map[K]int32{}, shares: map[string]*share{}}
}

// count counts one write of k, which a namespace made. It returns k as it is kept.
func (s *sketch[K]) count(namespace string, k K, one Counts) K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.increment(namespace, k, one).key
}

// countWithSource does so too, counts from which source it came, and keeps the workload if there is one.
func (s *sketch[K]) countWithSource(namespace string, k K, one Counts, source, workload key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.increment(namespace, k, one)
	r.writer.vote(source)
	if r.workload == nil && workload[2] != "" {
		of := workload.clone()
		r.workload = &of
	}
}

// increment is the row of k, with one write more. s.mu is held.
func (s *sketch[K]) increment(namespace string, k K, one Counts) *row[K] {
	s.total = s.total.Add(one)
	r := s.findOrAdd(namespace, k)
	r.Counts = r.Add(one)
	return r
}

// findOrAdd is that of k, with more weight. s.mu is held.
func (s *sketch[K]) findOrAdd(namespace string, k K) *row[K] {
	i, known := s.index[k]
	if !known {
		h := s.shares[namespace]
		if h == nil {
			h = &share{namespace: strings.Clone(namespace), minWeight: math.MaxInt64}
			s.shares[h.namespace] = h
		}
		h.rowCount++
		i, k = s.allocate(h), k.clone()
		s.index[k] = i
		s.rows[i] = row[K]{key: k, share: h, weight: s.rows[i].weight}
		h.minWeight = min(h.minWeight, s.rows[i].weight)
	}
	s.rows[i].weight++
	return &s.rows[i]
}

// allocate is a new place for a namespace, or one that another key loses. Where each key comes once, as in a wide storm, it
// looks at few places, and once at each namespace.
func (s *sketch[K]) allocate(h *share) int32 {
	if len(s.rows) < s.capacity {
		s.rows = append(s.rows, row[K]{})
		return int32(len(s.rows) - 1)
	}
	least := s.chooseVictims(h)
	lightest := -1
	for range s.rows {
		if s.searchFrom++; s.searchFrom >= len(s.rows) {
			s.searchFrom = 0
		}
		if r := &s.rows[s.searchFrom]; r.share.isVictim && (lightest < 0 || r.weight < s.rows[lightest].weight) {
			if lightest = s.searchFrom; r.weight == least {
				break
			}
		}
	}
	r := &s.rows[lightest]
	if r.weight > least {
		for _, of := range s.shares {
			if of.isVictim {
				of.minWeight = max(of.minWeight, r.weight)
			}
		}
	}
	delete(s.index, r.key)
	if r.share.rowCount--; r.share.rowCount == 0 {
		delete(s.shares, r.share.namespace)
	}
	return int32(lightest)
}

// chooseVictims chooses the namespaces of which one loses a place to h. None of their rows is lighter than least.
func (s *sketch[K]) chooseVictims(h *share) (least int64) {
	few := s.capacity / 32
	least, larger := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, of := range s.shares {
		least = min(least, of.minWeight)
		if of.isVictim = of.rowCount > max(h.rowCount, few); of.isVictim {
			larger = min(larger, of.minWeight)
		}
	}
	if larger < math.MaxInt64 {
		return larger
	}
	own := h.rowCount > max(few, 1)
	for _, of := range s.shares {
		of.isVictim = of == h || !own
	}
	if own {
		return h.minWeight
	}
	return least
}

// snapshot are the rows and the exact total.
func (s *sketch[K]) snapshot() ([]row[K], Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows), s.total
}

func (k key) truncated() key {
	for i := range k {
		k[i] = store.Clip(k[i], maxNameBytes)
	}
	return k
}

func (k key) clone() key {
	for i := range k {
		k[i] = strings.Clone(k[i])
	}
	return k
}

// majority finds the source that made more than half of some writes (Boyer and Moore 1981).
type majority struct {
	source key
	margin int64
}

func (m *majority) vote(source key) {
	switch {
	case m.source == source:
		m.margin++
	case m.margin == 0:
		m.source, m.margin = source, 1
	default:
		m.margin--
	}
}

// detail is what a Detail is found by: namespace, component, host, type, reason and rule. Its parts are kept elsewhere.
type detail [6]string

func (d detail) clone() detail { return d }

// bucketKey is that of a bucket.
type bucketKey store.Key

func (k bucketKey) clone() bucketKey { return k }
