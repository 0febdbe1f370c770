package busiest

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	// MaxTracked is how many rows of each Dimension a replica tracks. Up to that many are counted exactly. Beyond, each namespace that
	// needs it has at least an equal share of the rows, or competes with all others for the rest. Within the k rows in which a namespace
	// competes with itself, any key that made more than a k-th of its writes is always present.
	MaxTracked = 256
	// maxTrackedRules is how many generations of rules a replica tracks, and maxTrackedSources how many pairs of source and object
	// that rules refused, for all rules together.
	maxTrackedRules, maxTrackedSources = 4096, 512
	// maxNameBytes bounds each text that is kept: the longest name of an object. Clients may send more.
	maxNameBytes = 253
)

// RankingCounter counts Event writes by each Dimension, in at most 1 MB for MaxTracked rows. It is safe for concurrent use.
type RankingCounter struct {
	by map[Dimension]*sketch[key]
}

// NewRankingCounter returns a RankingCounter that tracks up to maxRows rows of each Dimension.
func NewRankingCounter(maxRows int) RankingCounter {
	r := RankingCounter{by: map[Dimension]*sketch[key]{}}
	for _, by := range Dimensions() {
		r.by[by] = newSketch[key](maxRows)
	}
	return r
}

// Counter counts the decisions of one replica: in a RankingCounter, in a Breakdown (at most 2 MB), and by rule with the sources and
// objects refused (at most 4 MB). It is safe for concurrent use.
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

// NewCounter makes a Counter for a replica with a unique name. It tracks up to maxRows rows of each Dimension.
func NewCounter(replica string, now time.Time, maxRows int) *Counter {
	return &Counter{
		RankingCounter: NewRankingCounter(maxRows), replica: replica, since: now.UTC(),
		rules: newSketch[RuleID](maxTrackedRules), refused: newSketch[refusal](maxTrackedSources),
		details: newSketch[detail](maxTrackedDetails), buckets: newSketch[bucketKey](maxTrackedBuckets),
	}
}

// Write is one Event write as Rankings count it. Its texts share memory with the Event.
type Write struct {
	namespace                    string
	source, object, reason, rule key
	workload                     key // of the object; empty if it is not known
	one                          Counts
}

// WriteOf returns the write of a decision. Rankings count those that are not Audited.
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

// Count counts a write, and keeps no reference to it.
func (r *RankingCounter) Count(w *Write) { r.count(w) }

// count counts w, and returns its detail with texts that r owns.
func (r *RankingCounter) count(w *Write) detail {
	in := r.by[Namespace].count(w.namespace, key{w.namespace}, w.one)
	from := r.by[Source].count(w.namespace, w.source, w.one)
	r.by[Object].countWithSource(w.namespace, w.object, w.one, from, w.workload)
	why := r.by[Reason].count(w.namespace, w.reason, w.one)
	rule := r.by[Policy].count(w.namespace, w.rule, w.one)
	return detail{in[0], from[0], from[1], why[0], why[1], rule[0]}
}

// CountDecision counts the decision on one Event write. It takes a few locks, mostly one after the other and each briefly. It
// allocates only for keys that are not tracked yet, and keeps no reference to d.
//
// Decisions of audited rules are in no ranking. The status of an enforced rule counts only its own decisions, not what it would
// decide if other rules were audited too. The built-in default has no status.
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
			if !d.Workload.IsZero() { // there are fewer workloads than pods, and their names say more
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

// CountWrite counts one write of a merged count or notice to the API server.
func (c *Counter) CountWrite() { c.writes.Add(1) }

// countBuckets counts a write that took a token from each bucket, or that one of them dropped. It allocates only for buckets that
// are not tracked yet.
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
		var info *bucketInfo
		if _, known := s.index[k]; !known {
			info = newBucketInfo(d, b)
		}
		var namespace string // stays empty for a bucket that several namespaces share
		if info != nil {
			namespace = info.namespace
		}
		r := s.increment(namespace, k, one)
		if r.bucket == nil {
			r.bucket = info
		}
		r.writer.vote(source)
		r.bucket.limit = store.Limit{Burst: b.Burst, Every: b.Every, Reserve: max(r.bucket.limit.Reserve, b.Reserve)}
	}
}

// Counts counts Event writes by their outcome.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// countOne returns the Counts of one write with a verdict.
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

// Count adds one write with a verdict.
func (c *Counts) Count(v store.Verdict) { *c = c.Add(countOne(v)) }

// Matched returns the number of writes that were decided.
func (c Counts) Matched() int64 { return c.Admitted + c.Merged + c.Dropped }

// Add returns the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Admitted + d.Admitted, c.Merged + d.Merged, c.Dropped + d.Dropped}
}

// sketch finds the busiest of any number of keys in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005), with rows
// shared between namespaces. When it is full, a new key takes over the row and weight of the lightest key. That key is chosen from the
// namespaces with more rows than the new key's namespace, or else from the same namespace. If neither has more than a 32nd of the
// rows, all keys are candidates. So a namespace that invents keys displaces its own.
type sketch[K sketchKey[K]] struct {
	mu         sync.Mutex
	capacity   int
	total      Counts
	index      map[K]int32 // of the row of a key
	rows       []row[K]
	searchFrom int // where the next search for the lightest row begins: rows before it have mostly become heavier
	shares     map[string]*share
	shareList  []*share // those of shares: a slice is faster to go through
	_          [64]byte // keeps the next lock in another cache line
}

// sketchKey is a key that a sketch counts.
type sketchKey[K any] interface {
	comparable
	// clone copies the key into its own memory, as its parts may share memory with a long request.
	clone() K
}

// share is a namespace's share of the rows.
type share struct {
	namespace string
	position  int // in sketch.shareList
	rowCount  int
	minWeight int64 // a lower bound for the weight of its rows
	isVictim  bool  // whether one of its rows may be displaced next
}

type row[K any] struct {
	key      K
	share    *share
	weight   int64       // includes the weight of earlier keys in this row
	writer   majority    // of an object or a bucket
	workload *key        // of an object, once it is known
	bucket   *bucketInfo // of a bucket
	failure  string      // of a rule
	// overflow and overflowIn are as in RuleCounts, for a rule.
	overflow   int64
	overflowIn string
	Counts
}

func newSketch[K sketchKey[K]](capacity int) *sketch[K] {
	return &sketch[K]{capacity: capacity, index: map[K]int32{}, shares: map[string]*share{}}
}

// count counts one write of k in a namespace. It returns the tracked key, which equals k and owns its memory.
func (s *sketch[K]) count(namespace string, k K, one Counts) K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.increment(namespace, k, one).key
}

// countWithSource counts one write of k and its source, and keeps the workload if there is one.
func (s *sketch[K]) countWithSource(namespace string, k K, one Counts, source, workload key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.increment(namespace, k, one)
	r.writer.vote(source)
	if r.workload == nil && workload[2] != "" {
		owned := workload.clone()
		r.workload = &owned
	}
}

// increment adds one write to the row of k, and returns it. The caller holds s.mu.
func (s *sketch[K]) increment(namespace string, k K, one Counts) *row[K] {
	s.total = s.total.Add(one)
	r := s.findOrAdd(namespace, k)
	r.Counts = r.Add(one)
	return r
}

// findOrAdd returns the row of k, which it may add, and increases its weight by one. The caller holds s.mu.
func (s *sketch[K]) findOrAdd(namespace string, k K) *row[K] {
	i, known := s.index[k]
	if !known {
		own := s.shares[namespace]
		if own == nil {
			own = &share{namespace: strings.Clone(namespace), minWeight: math.MaxInt64}
			own.position, s.shareList = len(s.shareList), append(s.shareList, own)
			s.shares[own.namespace] = own
		}
		own.rowCount++
		i, k = s.allocate(own), k.clone()
		s.index[k] = i
		s.rows[i] = row[K]{key: k, share: own, weight: s.rows[i].weight}
		own.minWeight = min(own.minWeight, s.rows[i].weight)
	}
	s.rows[i].weight++
	return &s.rows[i]
}

// allocate returns the index of a free row for a namespace, or of one that it takes from another key. If each key comes once, as in a
// storm about many objects, it visits few rows, and each namespace once.
func (s *sketch[K]) allocate(own *share) int32 {
	if len(s.rows) < s.capacity {
		s.rows = append(s.rows, row[K]{})
		return int32(len(s.rows) - 1)
	}
	least := s.chooseVictims(own)
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
		for _, other := range s.shareList {
			if other.isVictim {
				other.minWeight = max(other.minWeight, r.weight)
			}
		}
	}
	delete(s.index, r.key)
	if r.share.rowCount--; r.share.rowCount == 0 {
		s.removeShare(r.share)
	}
	return int32(lightest)
}

// removeShare forgets a namespace without rows.
func (s *sketch[K]) removeShare(gone *share) {
	delete(s.shares, gone.namespace)
	last := len(s.shareList) - 1
	moved := s.shareList[last]
	s.shareList[gone.position], moved.position = moved, gone.position
	s.shareList[last] = nil
	s.shareList = s.shareList[:last]
}

// chooseVictims marks the namespaces of which one loses a row to own. None of their rows is lighter than least.
func (s *sketch[K]) chooseVictims(own *share) (least int64) {
	few := s.capacity / 32
	least, larger := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, other := range s.shareList {
		least = min(least, other.minWeight)
		if other.isVictim = other.rowCount > max(own.rowCount, few); other.isVictim {
			larger = min(larger, other.minWeight)
		}
	}
	if larger < math.MaxInt64 {
		return larger
	}
	fromOwn := own.rowCount > max(few, 1)
	for _, other := range s.shareList {
		other.isVictim = other == own || !fromOwn
	}
	if fromOwn {
		return own.minWeight
	}
	return least
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

// detail identifies a Detail: namespace, component, host, type, reason and rule. The rankings own the memory of its parts.
type detail [6]string

func (d detail) clone() detail { return d }

// bucketKey is the key of a bucket in a sketch.
type bucketKey store.Key

func (k bucketKey) clone() bucketKey { return k }
