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

// Rankings count Event writes by each By: at most 1 MB, for Places rows. They may be used concurrently.
type Rankings struct {
	by map[By]*sketch[key]
}

// NewRankings makes Rankings that follow up to places rows of each By.
func NewRankings(places int) Rankings {
	r := Rankings{by: map[By]*sketch[key]{}}
	for _, by := range All() {
		r.by[by] = newSketch[key](places)
	}
	return r
}

// Counter counts what one replica decides: Rankings, what is Within them (at most 2 MB), and by rules with the sources and objects
// that they refused (at most 4 MB). It may be used concurrently.
type Counter struct {
	Rankings

	replica string
	since   time.Time
	rules   *sketch[RuleID]
	refused *sketch[refusal]
	details *sketch[detail]
	buckets *sketch[bucketKey]
	settled atomic.Int64
}

// NewCounter makes a Counter for a replica of a unique name. It follows up to places rows of each By.
func NewCounter(replica string, now time.Time, places int) *Counter {
	return &Counter{
		Rankings: NewRankings(places), replica: replica, since: now.UTC(),
		rules: newSketch[RuleID](rulePlaces), refused: newSketch[refusal](sourcePlaces),
		details: newSketch[detail](detailPlaces), buckets: newSketch[bucketKey](bucketPlaces),
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
func WriteOf(d *admission.Decided) Write {
	e, w := d.Request.Object, &d.Workload
	return Write{
		namespace: store.Clip(d.Request.Namespace, maxPart),
		source:    key{d.Source.Component, d.Source.Host}.clipped(),
		object:    key{d.Object.Kind, d.Object.Namespace, d.Object.Name}.clipped(),
		reason:    key{e.Type, e.Reason}.clipped(),
		rule:      key{d.Rule.Name}.clipped(),
		workload:  key{w.Kind, w.Namespace, w.Name}.clipped(),
		one:       countsOf(d.Verdict),
	}
}

// Count counts a write, and keeps no part of it.
func (r *Rankings) Count(w *Write) { r.count(w) }

// count returns the detail of w, whose texts are kept.
func (r *Rankings) count(w *Write) detail {
	in := r.by[Namespace].count(w.namespace, key{w.namespace}, w.one)
	from := r.by[Source].count(w.namespace, w.source, w.one)
	r.by[Object].countOf(w.namespace, w.object, w.one, from, w.workload)
	why := r.by[Reason].count(w.namespace, w.reason, w.one)
	rule := r.by[Policy].count(w.namespace, w.rule, w.one)
	return detail{in[0], from[0], from[1], why[0], why[1], rule[0]}
}

// Decided counts what became of one Event write. It takes a few locks, mostly one after the other and each for a moment;
// allocates only for what is not followed yet, and keeps no part of d. Decisions of audited rules are in no ranking. The status of a rule in force counts only what it did, not what it would do if others were
// audited too; the built-in default has no status.
func (c *Counter) Decided(d *admission.Decided) {
	w := WriteOf(d)
	if !d.Audited {
		within := c.count(&w)
		c.details.count(within[0], within, w.one)
		c.charged(d, key{within[1], within[2]}, w.one)
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
		c.failed(err)
	}
	for _, r := range []*policy.Rule{d.NoBucket, d.NoRegister} {
		if r != nil && r.Identity.UID != "" && (!d.Audited || r.Mode == policy.Audit) {
			c.overflowed(&r.Identity, w.namespace)
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
func (s *sketch[K]) countOf(namespace string, k K, one Counts, source, workload key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.counted(namespace, k, one)
	r.by.vote(source)
	if r.of == nil && workload[2] != "" {
		of := workload.detached()
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
