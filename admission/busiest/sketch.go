package busiest

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/eventquota/eventquota/store"
)

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

// snapshot returns the rows and the exact total.
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

// detail identifies a Detail: namespace, component, host, type, reason and rule. The rankings own the memory of its parts.
type detail [6]string

func (d detail) clone() detail { return d }

// bucketKey is the key of a bucket in a sketch.
type bucketKey store.Key

func (k bucketKey) clone() bucketKey { return k }
