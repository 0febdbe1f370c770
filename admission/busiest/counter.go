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
	// Places is how many rows of each By a replica follows. That many are counted exactly. Beyond, each namespace has at
	// least an equal part of them, if it needs that, or competes with all others for the rest; and of k places in which
	// it competes with itself, anything that made more than a k-th of its writes is always among them.
	Places = 256
	// rulePlaces is how many generations of rules a replica follows, and sourcePlaces how many sources and objects that
	// rules refused, of all rules.
	rulePlaces, sourcePlaces = 4096, 512
	// maxPart is how many bytes of a text are kept: the longest name that an object can have. Clients may send more.
	maxPart = 253
)

// Counter counts what one replica decides: by each By (at most 1 MB, for Places rows), what is Within them (at most
// 2 MB), and by rules with the sources and objects that they refused (at most 4 MB). It may be used concurrently.
type Counter struct {
	replica string
	since   time.Time
	by      map[By]*sketch[key]
	rules   *sketch[RuleID]
	refused *sketch[refusal]
	details *sketch[detail]
	buckets *sketch[bucketKey]
	settled atomic.Int64
}

// NewCounter makes a Counter for a replica of a unique name. It follows up to places rows of each By.
func NewCounter(replica string, now time.Time, places int) *Counter {
	c := NewRankings(replica, now, places)
	c.details, c.buckets = newSketch[detail](detailPlaces), newSketch[bucketKey](bucketPlaces)
	return c
}

// NewRankings is NewCounter where nobody asks what is Within, as counting that takes time too.
func NewRankings(replica string, now time.Time, places int) *Counter {
	c := &Counter{
		replica: replica, since: now.UTC(), by: map[By]*sketch[key]{},
		rules: newSketch[RuleID](rulePlaces), refused: newSketch[refusal](sourcePlaces),
	}
	for _, by := range All() {
		c.by[by] = newSketch[key](places)
	}
	return c
}

// Decided counts what became of one Event write. It takes a few locks, mostly one after the other and each for a moment;
// allocates only for what is not followed yet, and keeps no part of d. Decisions of audited rules are in no ranking. The status of a rule in force counts only what it did, not what it would do if others were
// audited too; the built-in default has no status.
func (c *Counter) Decided(d *admission.Decided) {
	e, namespace, one := d.Request.Object, store.Clip(d.Request.Namespace, maxPart), countsOf(d.Verdict)
	source, object := key{d.Source.Component, d.Source.Host}.clipped(), key{d.Object.Kind, d.Object.Namespace, d.Object.Name}.clipped()
	if !d.Audited {
		in := c.by[Namespace].count(namespace, key{namespace}, one)
		from := c.by[Source].count(namespace, source, one)
		c.by[Object].countOf(namespace, object, one, from, &d.Workload)
		why := c.by[Reason].count(namespace, key{e.Type, e.Reason}.clipped(), one)
		rule := c.by[Policy].count(namespace, key{d.Rule.Name}.clipped(), one)
		if c.details != nil {
			c.details.count(in[0], detail{in[0], from[0], from[1], why[0], why[1], rule[0]}, one)
			c.charged(d, from, one)
		}
	}
	if i := &d.Rule.Identity; i.UID != "" && (!d.Audited || d.Rule.Mode == policy.Audit) {
		c.rules.count(i.Namespace, ruleID(i), one)
		if one.Admitted == 0 {
			if o := &d.Workload; !o.IsZero() { // of which there are fewer, and which say more than a pod's name
				object = key{o.Kind, o.Namespace, o.Name}.clipped()
			}
			c.refused.count(namespace, refusal{ruleID(i), source, object}, one)
		}
	}
	for _, err := range d.Errors {
		c.failed(err)
	}
	for _, r := range []*policy.Rule{d.NoBucket, d.NoRegister} {
		if r != nil && r.Identity.UID != "" && (!d.Audited || r.Mode == policy.Audit) {
			c.overflowed(&r.Identity, namespace)
		}
	}
}

// Settled counts a count or notice that was written to the API server.
func (c *Counter) Settled() { c.settled.Add(1) }

// charged counts a write that took a token of each bucket, or was dropped by one. It allocates only for buckets that are
// not followed yet.
func (c *Counter) charged(d *admission.Decided, source key, one Counts) {
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
		var u *used
		if _, known := s.index[k]; !known {
			u = newUsed(d, b)
		}
		var namespace string // a bucket that several namespaces share is of none
		if u != nil {
			namespace = u.namespace
		}
		r := s.counted(namespace, k, one)
		if r.used == nil {
			r.used = u
		}
		r.by.vote(source)
		r.used.limit = store.Limit{Burst: b.Burst, Every: b.Every, Reserve: max(r.used.limit.Reserve, b.Reserve)}
	}
}

// overflowed counts a write that an overflow bucket of a rule has decided.
func (c *Counter) overflowed(rule *policy.Identity, namespace string) {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	r := c.rules.row(rule.Namespace, ruleID(rule))
	if r.overflow++; r.overflowIn != namespace {
		r.overflowIn = strings.Clone(namespace)
	}
}

// failed keeps the first reason why it is unknown whether a rule matches.
func (c *Counter) failed(err *policy.EvaluationError) {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	r := c.rules.row(err.Rule.Identity.Namespace, ruleID(&err.Rule.Identity))
	if r.err == "" {
		r.err = store.Clip(err.Reason(), maxPart)
	}
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
type sketch[K keyed[K]] struct {
	mu      sync.Mutex
	places  int
	total   Counts
	index   map[K]int32 // the place of a key
	rows    []row[K]
	next    int // where the next search for the lightest begins: those before it have mostly become heavier
	holders map[string]*holder
	_       [64]byte // the next lock is in another cache line
}

// keyed is what a sketch counts.
type keyed[K any] interface {
	comparable
	// detached is the key in memory of its own: its parts may be those of a long request.
	detached() K
}

// holder is a namespace that has places.
type holder struct {
	namespace string
	places    int
	least     int64 // none of its rows is lighter
	loses     bool  // whether a row of it is displaced next
}

type row[K any] struct {
	key    K
	holder *holder
	weight int64    // with that of earlier keys in the same place
	by     majority // who writes, of an object and a bucket
	of     *key     // the workload of an object, once it is known
	used   *used    // of a bucket
	err    string   // of a rule
	// overflow and overflowIn are RuleCounts' of a rule.
	overflow   int64
	overflowIn string
	Counts
}

func newSketch[K keyed[K]](places int) *sketch[K] {
	return &sketch[K]{places: places, index: map[K]int32{}, holders: map[string]*holder{}}
}

// count counts one write of k, which a namespace made. It returns k as it is kept.
func (s *sketch[K]) count(namespace string, k K, one Counts) K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted(namespace, k, one).key
}

// countOf does so too, counts from which source it came, and keeps the workload if there is one.
func (s *sketch[K]) countOf(namespace string, k K, one Counts, source key, workload *store.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.counted(namespace, k, one)
	r.by.vote(source)
	if r.of == nil && workload.Name != "" {
		of := key{workload.Kind, workload.Namespace, workload.Name}.clipped().detached()
		r.of = &of
	}
}

// counted is the row of k, with one write more. s.mu is held.
func (s *sketch[K]) counted(namespace string, k K, one Counts) *row[K] {
	s.total = s.total.Add(one)
	r := s.row(namespace, k)
	r.Counts = r.Add(one)
	return r
}

// row is that of k, with more weight. s.mu is held.
func (s *sketch[K]) row(namespace string, k K) *row[K] {
	i, known := s.index[k]
	if !known {
		h := s.holders[namespace]
		if h == nil {
			h = &holder{namespace: strings.Clone(namespace), least: math.MaxInt64}
			s.holders[h.namespace] = h
		}
		h.places++
		i, k = s.place(h), k.detached()
		s.index[k] = i
		s.rows[i] = row[K]{key: k, holder: h, weight: s.rows[i].weight}
		h.least = min(h.least, s.rows[i].weight)
	}
	s.rows[i].weight++
	return &s.rows[i]
}

// place is a new place for a namespace, or one that another key loses. Where each key comes once, as in a wide storm, it
// looks at few places, and once at each namespace.
func (s *sketch[K]) place(h *holder) int32 {
	if len(s.rows) < s.places {
		s.rows = append(s.rows, row[K]{})
		return int32(len(s.rows) - 1)
	}
	least := s.choose(h)
	lightest := -1
	for range s.rows {
		if s.next++; s.next >= len(s.rows) {
			s.next = 0
		}
		if r := &s.rows[s.next]; r.holder.loses && (lightest < 0 || r.weight < s.rows[lightest].weight) {
			if lightest = s.next; r.weight == least {
				break
			}
		}
	}
	r := &s.rows[lightest]
	if r.weight > least {
		for _, of := range s.holders {
			if of.loses {
				of.least = max(of.least, r.weight)
			}
		}
	}
	delete(s.index, r.key)
	if r.holder.places--; r.holder.places == 0 {
		delete(s.holders, r.holder.namespace)
	}
	return int32(lightest)
}

// choose chooses the namespaces of which one loses a place to h. None of their rows is lighter than least.
func (s *sketch[K]) choose(h *holder) (least int64) {
	few := s.places / 32
	least, larger := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, of := range s.holders {
		least = min(least, of.least)
		if of.loses = of.places > max(h.places, few); of.loses {
			larger = min(larger, of.least)
		}
	}
	if larger < math.MaxInt64 {
		return larger
	}
	own := h.places > max(few, 1)
	for _, of := range s.holders {
		of.loses = of == h || !own
	}
	if own {
		return h.least
	}
	return least
}

// all are the rows and the exact total.
func (s *sketch[K]) all() ([]row[K], Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows), s.total
}

func (k key) clipped() key {
	for i := range k {
		k[i] = store.Clip(k[i], maxPart)
	}
	return k
}

func (k key) detached() key {
	for i := range k {
		k[i] = strings.Clone(k[i])
	}
	return k
}

// majority finds the source that made more than half of some writes (Boyer and Moore 1981).
type majority struct {
	source key
	lead   int64
}

func (m *majority) vote(source key) {
	switch {
	case m.source == source:
		m.lead++
	case m.lead == 0:
		m.source, m.lead = source, 1
	default:
		m.lead--
	}
}

// detail is what a Detail is found by: namespace, component, host, type, reason and rule. Its parts are kept elsewhere.
type detail [6]string

func (d detail) detached() detail { return d }

// bucketKey is that of a bucket.
type bucketKey store.Key

func (k bucketKey) detached() bucketKey { return k }
