package busiest

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Places is how many rows of each By a replica follows. The first so many are
// counted exactly. Beyond, one that has made more than a 256th of all writes is
// always among the rows, and misses less than a 256th of them.
const Places = 256

// maxPart is how many bytes of a part of a name count: the longest name that an
// object can have. Clients may claim more.
const maxPart = 253

// Counter counts what one replica decides: by each By (1 MB at the most, for Places rows), and by
// policies with who they refused. It is for any number of goroutines.
type Counter struct {
	replica string
	since   time.Time
	seed    maphash.Seed
	by      [kinds]*sketch[key]

	policies  *sketch[PolicyID]             // its lock guards what follows
	offenders map[PolicyID]*sketch[Subject] // of those in policies
	followed  int                           // how many offenders there are
}

// NewCounter makes a Counter that begins to count now, for a replica of a name
// that no other process has. It follows so many rows of each By.
func NewCounter(replica string, now time.Time, places int) *Counter {
	c := &Counter{
		replica: replica, since: now.UTC(), seed: maphash.MakeSeed(),
		policies: newSketch(policyPlaces, PolicyID.detached), offenders: map[PolicyID]*sketch[Subject]{},
	}
	for i := range c.by {
		c.by[i] = newSketch(places, key.detached)
	}
	return c
}

// Write is whose write was decided.
type Write struct {
	Namespace string // of the Event
	Subject   Subject
	Type      string
	Reason    string
	Policy    string
}

// Count counts one decision. It takes five locks for a moment, one after the
// other, allocates only for what is not followed yet, and keeps no part of w.
func (c *Counter) Count(w *Write, v store.Verdict) {
	s, one := &w.Subject, CountsOf(v)
	countBy(c.by[Namespace], c.seed, key{w.Namespace}, one)
	countBy(c.by[Source], c.seed, key{s.Component, s.Host}, one)
	countBy(c.by[Object], c.seed, key{s.Kind, s.Namespace, s.Name}, one)
	countBy(c.by[Reason], c.seed, key{w.Type, w.Reason}, one)
	countBy(c.by[Policy], c.seed, key{w.Policy}, one)
}

// Decided counts what became of one Event write. What an audited policy would have done is in no ranking; one
// that is in force has in its status what it did, not what it would do if others were audited too. The
// built-in default has no status. It keeps no part of d.
func (c *Counter) Decided(d *admission.Decided) {
	e, subject := d.Request.Object, Subject{Object: d.Object, Source: d.Source}
	if !d.Audited {
		c.Count(&Write{Namespace: d.Request.Namespace, Subject: subject, Type: e.Type, Reason: e.Reason, Policy: d.Policy.Name}, d.Verdict)
	}
	if i := d.Policy.Identity; i.UID != "" && (!d.Audited || d.Policy.Mode == policy.Audit) {
		c.CountPolicy(PolicyID{UID: string(i.UID), Generation: i.Generation}, d.Verdict, subject)
	}
}

// Snapshot is what was counted until now. Rankings are each of one moment, and
// may differ by the writes that are being counted.
func (c *Counter) Snapshot(now time.Time) Snapshot {
	return Snapshot{
		Replica: Replica{Name: c.replica, Since: c.since, At: now.UTC()},
		By: map[By]Ranking{
			Namespace: ranking(c.by[Namespace], whole),
			Source:    ranking(c.by[Source], sourceName),
			Object:    ranking(c.by[Object], objectName),
			Reason:    ranking(c.by[Reason], reasonName),
			Policy:    ranking(c.by[Policy], whole),
		},
		Policies: c.policyCounts(),
	}
}

// Counts are Event writes by what became of them, from 0.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// CountsOf is one write of which that became.
func CountsOf(v store.Verdict) Counts {
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
func (c *Counts) Count(v store.Verdict) { *c = c.Add(CountsOf(v)) }

// Matched is how many writes were decided.
func (c Counts) Matched() int64 { return c.Admitted + c.Merged + c.Dropped }

// Add is the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Admitted + d.Admitted, c.Merged + d.Merged, c.Dropped + d.Dropped}
}

// Since is what c has more than before, or all of c when it has less of something: it was
// forgotten then, and counted anew.
func (c Counts) Since(before Counts) Counts {
	if c.Admitted < before.Admitted || c.Merged < before.Merged || c.Dropped < before.Dropped {
		return c
	}
	return Counts{c.Admitted - before.Admitted, c.Merged - before.Merged, c.Dropped - before.Dropped}
}

// whole is the name of a namespace or a policy.
func whole(k key) string { return cmp.Or(plain(k[0]), `""`) }

// sourceName is component/host, or the component alone.
func sourceName(k key) string {
	if k[1] == "" {
		return part(k[0])
	}
	return part(k[0]) + "/" + part(k[1])
}

// objectName is the kind, a space and namespace/name, or the name alone.
func objectName(k key) string {
	if k[1] == "" {
		return part(k[0]) + " " + part(k[2])
	}
	return part(k[0]) + " " + part(k[1]) + "/" + part(k[2])
}

// reasonName is the type, a space and the reason.
func reasonName(k key) string { return part(k[0]) + " " + part(k[1]) }

// part is s as a part of a name: quoted where it is empty or has what separates
// parts, so that no two keys share a name.
func part(s string) string {
	if s == "" || strings.ContainsAny(s, " /") {
		return strconv.Quote(s)
	}
	return plain(s)
}

// plain is s, quoted where it could do more to a terminal than be read, or be
// taken for a quoted one.
func plain(s string) string {
	odd := func(r rune) bool { return !strconv.IsPrint(r) }
	if strings.HasPrefix(s, `"`) || strings.ContainsFunc(s, odd) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}

// clip is s, cut to maxPart bytes between two runes.
func clip(s string) string {
	if len(s) <= maxPart {
		return s
	}
	end := maxPart
	for end > maxPart-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// sketch finds the busiest keys among any number in bounded memory: Space-Saving (Metwally,
// Agrawal, El Abbadi 2005). At its bound a newcomer takes the place and the weight of the
// lightest. Among n writes, one who made more than n/places of them has a place at the end,
// and misses n/places at most.
type sketch[K comparable] struct {
	mu       sync.Mutex // not taken by its methods: an owner may guard more with it
	places   int
	detached func(K) K // a key in memory of its own
	total    Counts
	index    map[uint64]int32 // the place, by the hash of a key, which nobody can make collide
	rows     []row[K]
	// weights are those of rows, with those of their forerunners. They are apart so that the
	// lightest is found in few cache lines.
	weights []int64
	lost    int64    // the weight of the key that lost its place last: nobody without a place had more
	_       [64]byte // the next lock is in another cache line
}

type row[K comparable] struct {
	hash uint64
	key  K
	Counts
}

func newSketch[K comparable](places int, detached func(K) K) *sketch[K] {
	return &sketch[K]{places: places, detached: detached, index: map[uint64]int32{}}
}

// count counts one write of k. It returns who lost its place to k, if anybody did.
func (s *sketch[K]) count(seed maphash.Seed, k K, one Counts) (left K, ok bool) {
	hash := maphash.Comparable(seed, k)
	s.total = s.total.Add(one)
	i, known := s.index[hash]
	if !known {
		if i, ok = s.place(); ok {
			left = s.rows[i].key
			delete(s.index, s.rows[i].hash)
		}
		s.index[hash] = i
		s.rows[i] = row[K]{hash: hash, key: s.detached(k)}
	}
	s.rows[i].Counts = s.rows[i].Add(one)
	s.weights[i]++
	return left, ok
}

// place is a new place, or that of the lightest, which is taken.
func (s *sketch[K]) place() (i int32, taken bool) {
	if n := len(s.rows); n < s.places {
		s.rows, s.weights = append(s.rows, row[K]{}), append(s.weights, 0)
		return int32(n), false
	}
	lightest := 0
	for i, w := range s.weights {
		if w < s.weights[lightest] {
			lightest = i
		}
	}
	s.lost = s.weights[lightest]
	return int32(lightest), true
}

// key is what a row of a Ranking is found by: parts of its name, empty ones at the end.
type key [3]string

// detached is k in memory of its own.
func (k key) detached() key {
	detach(&k[0], &k[1], &k[2])
	return k
}

// detach gives texts memory of their own, together: they may be parts of a long request.
func detach(texts ...*string) {
	parts := make([]string, 0, 7)
	for _, text := range texts {
		parts = append(parts, *text)
	}
	rest := strings.Join(parts, "")
	for _, text := range texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
}

// countBy counts one write of k, of which it keeps no part.
func countBy(s *sketch[key], seed maphash.Seed, k key, one Counts) {
	for i := range k {
		k[i] = clip(k[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(seed, k, one)
}

// ranking is what s has counted. name writes a key.
func ranking(s *sketch[key], name func(key) string) Ranking {
	s.mu.Lock()
	r := Ranking{Total: s.total, Missing: s.lost}
	rows, weights := slices.Clone(s.rows), slices.Clone(s.weights)
	s.mu.Unlock()
	r.Rows = make([]Row, len(rows))
	for i, one := range rows {
		r.Rows[i] = Row{Name: name(one.key), Counts: one.Counts, Missing: weights[i] - one.Matched()}
	}
	r.sort()
	return r
}
