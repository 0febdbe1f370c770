package busiest

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/tally"
)

// places is how many rows of each By a replica follows. The first so many are
// counted exactly. Beyond, one that has made more than a 256th of all writes is
// always among the rows, and misses less than a 256th of them.
const places = 256

// key is what a row is found by: parts of its name, empty ones at the end.
type key [3]string

// maxPart is how many bytes of a part of a name count: the longest name that an
// object can have. Clients may claim more.
const maxPart = 253

// table is one ranking in the making: Space-Saving (Metwally, Agrawal, El Abbadi
// 2005). At its bound a newcomer takes the place and the weight of the lightest.
// That of package tally searches a list, as it has few places and a twin in Lua;
// this one has an index, as every write comes by.
type table struct {
	mu    sync.Mutex
	total tally.Counts
	index map[uint64]int32 // the place, by the hash of a key, which nobody can make collide
	rows  []counted
	// weights are those of rows, with those of their forerunners. They are apart
	// so that the lightest is found in 2 KB.
	weights [places]int64
	lost    int64    // the weight of who lost a place last: nobody without a place had more
	_       [64]byte // the next lock is in another cache line
}

type counted struct {
	hash uint64
	key  key
	tally.Counts
}

// count counts one write. It keeps no part of k.
func (t *table) count(seed maphash.Seed, k key, v store.Verdict) {
	for i := range k {
		k[i] = clip(k[i])
	}
	hash := maphash.Comparable(seed, k)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total.Count(v)
	i, known := t.index[hash]
	if !known {
		i = t.place()
		delete(t.index, t.rows[i].hash)
		t.index[hash] = i
		t.rows[i] = counted{hash: hash, key: detached(k)}
	}
	t.rows[i].Count(v)
	t.weights[i]++
}

// place is a free place, or that of the lightest.
func (t *table) place() int32 {
	if n := len(t.rows); n < places {
		t.rows = append(t.rows, counted{})
		return int32(n)
	}
	lightest := 0
	for i, w := range t.weights {
		if w < t.weights[lightest] {
			lightest = i
		}
	}
	t.lost = t.weights[lightest]
	return int32(lightest)
}

// detached is k in memory of its own: its parts may be parts of a long request.
func detached(k key) key {
	all := strings.Join(k[:], "")
	for i, part := range k {
		k[i], all = all[:len(part)], all[len(part):]
	}
	return k
}

// ranking is what t has counted. name writes a key.
func (t *table) ranking(name func(key) string) Ranking {
	t.mu.Lock()
	r := Ranking{Total: t.total, Missing: t.lost}
	rows := append([]counted(nil), t.rows...)
	weights := t.weights
	t.mu.Unlock()
	r.Rows = make([]Row, len(rows))
	for i, c := range rows {
		r.Rows[i] = Row{Name: name(c.key), Counts: c.Counts, Missing: weights[i] - c.Matched()}
	}
	r.sort()
	return r
}
