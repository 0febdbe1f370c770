package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// CountedNamespace is the namespace among whose registers g is: that of the Events that have made it.
func (g *Group) CountedNamespace() string { return cmp.Or(g.OriginNamespace, g.Namespace) }

// noticeTurn begins the turns of the registers that have notices only. No namespace's name has it.
const noticeTurn = "/"

// Turn is whose turn it is when g is written: that of the namespace of the Events that have made it. Notices of quotas have turns
// apart from the counts of stored Events, wherever they are written, so that those of one namespace delay no other's, nor its own counts.
func (g *Group) Turn() string {
	if g.Object.IsZero() {
		return noticeTurn + g.CountedNamespace()
	}
	return g.Namespace
}

// Snapshot is a copy of a part of what a store holds.
type Snapshot struct {
	At      time.Time // by the clock of the store
	Groups  map[store.Key]*Group
	Buckets map[store.Key]BucketState // of quotas
}

// Bounds of what one group may hold beside its stored Events.
const (
	maxSimilar  = 64  // kinds of similar Events
	maxBuckets  = 16  // spam buckets
	maxReserves = 16  // reasons with a reserve, of a spam bucket
	maxNames    = 256 // names that were refused
	maxNotices  = 8   // notices that are in their window or pending, beside combined ones
	maxTallies  = 16  // reasons, sources and workloads in a notice
	maxObjects  = 10  // objects in a notice
	maxReasons  = 16  // combined notices of a bucket in a window, each for a reason and type
	maxCombined = 24  // combined notices that are in their window or pending

	combinedTallies = 4 // sources and workloads in a combined notice
	combinedObjects = 3 // objects in a combined notice
)

// Expired reports whether g can be deleted at now.
func (g *Group) Expired(now time.Time) bool { return now.UnixMicro() > g.KeepUntil && g.Due().IsZero() }

// ExpiresAt is when g can be deleted; in the year 2255 while something is pending.
func (g *Group) ExpiresAt() time.Time {
	if !g.Due().IsZero() {
		return DueBy(time.Time{}, maxDuration)
	}
	return time.UnixMicro(g.KeepUntil + 1)
}

// Clone is an independent copy.
func (g *Group) Clone() *Group {
	c := *g
	c.Events = cloneEach(g.Events, func(r *TrackedEvent) { r.Messages = slices.Clone(r.Messages) })
	c.Similar = cloneEach(g.Similar, func(s *SimilarEvents) { s.Messages = slices.Clone(s.Messages) })
	c.Buckets = cloneEach(g.Buckets, func(b *SpamBucket) { b.Reserves = slices.Clone(b.Reserves) })
	c.RefusedNames, c.LastSteps, c.Notices = slices.Clone(g.RefusedNames), slices.Clone(g.LastSteps), g.Notices.clone()
	return &c
}

// cloneEach is a copy of which deepen copies what an element points to.
func cloneEach[T any](all []T, deepen func(*T)) []T {
	all = slices.Clone(all)
	for i := range all {
		deepen(&all[i])
	}
	return all
}

// byKey finds the stored Event that Events of a key go into.
func (g *Group) byKey(key store.Key) *TrackedEvent {
	return g.findEvent(func(r *TrackedEvent) bool { return r.Key == key && !key.IsZero() })
}

// byName finds a stored Event by its name.
func (g *Group) byName(name string) *TrackedEvent {
	return g.findEvent(func(r *TrackedEvent) bool { return r.Name == name && name != "" })
}

func (r *TrackedEvent) identity() store.Identity {
	return store.Identity{UID: r.UID, CreateID: r.CreateID}
}

// countKnown reports whether it is known how many occurrences were reported under r's own name.
func (r *TrackedEvent) countKnown() bool { return !r.Partial || r.Own != 0 }

func (g *Group) byID(id uint64) *TrackedEvent {
	return g.findEvent(func(r *TrackedEvent) bool { return r.ID == id })
}

func (g *Group) findEvent(match func(*TrackedEvent) bool) *TrackedEvent {
	for i := range g.Events {
		if match(&g.Events[i]) {
			return &g.Events[i]
		}
	}
	return nil
}

func (g *Group) newID() uint64 {
	g.NextID++
	return g.NextID
}

// addEvent makes a record without a name. Pointers to other records are void after it.
func (g *Group) addEvent(key store.Key) *TrackedEvent {
	g.Events = append(g.Events, TrackedEvent{ID: g.newID(), Key: key})
	return &g.Events[len(g.Events)-1]
}

// alreadyReported is how many of a write's occurrences were reported before under its name, and how many of these that is a
// guess of.
//
// A name that is not known may be one that a quota refused: at its first occurrence only if the register had been there
// by then, and each time if it had not. So a recorder that counts by one is counted exactly; of one that skips counts
// while nothing is known of its object, what it skips is lost. Where the first occurrence was longer ago than names are
// kept, all but the newest were reported, if refused writes count on under that name; an Event that is stored goes on as
// its recorder counts.
//
// Where o was decided elsewhere, its decision is the guess, whatever the register has become by now: so the order in which
// decisions are reported changes no count.
func (g *Group) alreadyReported(now int64, w *store.Write, l *store.Limits, stored bool, o *DeferredDecision) (n, guessed int64) {
	if r := g.byName(w.Name); r != nil && r.countKnown() {
		return min(r.Own, w.Count), r.AssumedReported
	}
	if n := g.refusedName(now, nameKey(w.Name), l); n != nil {
		return min(int64(n.Count), w.Count), int64(n.AssumedReported)
	}
	recent := !w.FirstSeen.IsZero() && now-w.FirstSeen.UnixMicro() <= micros(l.IdenticalWindow)
	switch {
	case w.Count == 1:
		return 0, 0
	case recent && len(l.Quotas) == 0:
		return 0, 0
	case recent && o != nil:
		n = max(0, w.Count-o.Decision.Occurrences)
		return n, n
	case recent && g.FirstWrite != 0 && w.FirstSeen.UnixMicro() >= g.FirstWrite: // both by the writer's clock
		return 1, 1
	case recent:
		return w.Count - 1, w.Count - 1
	case stored:
		return 0, 0
	}
	return w.Count - 1, 0
}

// nameKey is a short key of a name or reason, by all of it.
func nameKey(name string) uint64 {
	var text [320]byte // nearly all fit, which costs no allocation; a larger one lets the stack of each goroutine grow
	sum := sha256.Sum256(append(text[:0], name...))
	return binary.BigEndian.Uint64(sum[:8])
}

// short is half a key: enough to distinguish what one group holds.
func short(key store.Key) uint64 { return binary.BigEndian.Uint64(key[:8]) }

// refusedName finds what is known of a name that was refused, and still counts.
func (g *Group) refusedName(now int64, key uint64, l *store.Limits) *RefusedName {
	for i := range g.RefusedNames {
		if n := &g.RefusedNames[i]; n.Key == key && int64(seconds(now))-int64(n.At) <= micros(l.IdenticalWindow)/second {
			return n
		}
	}
	return nil
}

const second = int64(time.Second / time.Microsecond)

// seconds are those of a time in microseconds, of the years 1970 to 2106: earlier is 1970, and later is 2106.
func seconds(at int64) uint32 { return saturated(at / second) }

// saturated is n, or the nearest number that fits.
func saturated(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// removeName takes a name out of the refused ones and returns what was known of it.
func (g *Group) removeName(key uint64) RefusedName {
	i := slices.IndexFunc(g.RefusedNames, func(n RefusedName) bool { return n.Key == key })
	if i < 0 {
		return RefusedName{}
	}
	n := g.RefusedNames[i]
	g.RefusedNames = slices.Delete(g.RefusedNames, i, i+1)
	return n
}

// Bytes of the parts of a Group without their texts: in memory with the runtime's overhead, which is more than encoded.
const (
	groupBytes, recordBytes, noticeBytes = 480, 488, 480
	similarBytes, bucketBytes            = 88, 64
	reserveBytes, refusedNameBytes       = 32, 48
	tallyBytes, topItemBytes, keyBytes   = 32, 48, 9
)

// Size estimates the memory of g, in bytes. No encoded g is larger.
func (g *Group) Size() int64 {
	n := groupBytes + len(g.Namespace) + len(g.OriginNamespace) + objectBytes(&g.InvolvedObject) + len(g.Source.Component) + len(g.Source.Host)
	n += (len(g.RefusedNames) + len(g.LastSteps)) * refusedNameBytes
	for i := range g.Similar {
		n += similarBytes + len(g.Similar[i].Messages)*keyBytes
	}
	for i := range g.Buckets {
		n += bucketBytes + len(g.Buckets[i].Reserves)*reserveBytes
	}
	for i := range g.Events {
		r := &g.Events[i]
		n += recordBytes + len(r.Name) + len(r.UID) + len(r.Version) + len(r.Reason) + len(r.Text) + talliesBytes(r.Messages)
	}
	return int64(n + g.Notices.size())
}

func objectBytes(o *store.Object) int {
	return len(o.APIVersion) + len(o.Kind) + len(o.Namespace) + len(o.Name) + len(o.UID)
}

func talliesBytes(all []store.Tally) int {
	n := len(all) * tallyBytes
	for _, t := range all {
		n += len(t.Name)
	}
	return n
}

// shrinkToFit keeps g within MaxGroupBytes.
func (g *Group) shrinkToFit(now time.Time, fresh store.Key) {
	for more := true; more && g.Size() > MaxGroupBytes; {
		more = g.dropLeastUseful(now, fresh)
	}
}

// dropLeastUseful makes g smaller by what is missed least: kept messages, settled Events, kinds of similar Events,
// each of what was used longest ago; then Events, whose counts the notice reports from then on; then
// what notices say beside their count, and refused names. It reports whether there was anything.
func (g *Group) dropLeastUseful(now time.Time, fresh store.Key) bool {
	if i := oldest(g.Events, func(r *TrackedEvent) (int64, bool) { return r.ReceivedAt, len(r.Messages) > 0 }); i >= 0 {
		g.Events[i].Messages = nil
		return true
	}
	if forgetOldest(&g.Events, func(r *TrackedEvent) (int64, bool) { return r.ReceivedAt, r.Due == 0 }) ||
		forgetOldest(&g.Similar, func(s *SimilarEvents) (int64, bool) { return s.Last, true }) {
		return true
	}
	if i := oldest(g.Events, func(r *TrackedEvent) (int64, bool) { return r.ReceivedAt, true }); i >= 0 {
		g.abandonEvent(now, fresh, g.Events[i].ID)
		return true
	}
	if g.Notices.shorten() {
		return true
	}
	g.RefusedNames = g.RefusedNames[(len(g.RefusedNames)+1)/2:]
	return len(g.RefusedNames) > 0
}

// oldest is the place of the one with the earliest time of those that count; -1 for none.
func oldest[T any](all []T, of func(*T) (at int64, counts bool)) int {
	found, first := -1, int64(0)
	for i := range all {
		if at, counts := of(&all[i]); counts && (found < 0 || at < first) {
			found, first = i, at
		}
	}
	return found
}

// forgetOldest removes the one with the earliest time of those that count, and reports whether there was any.
func forgetOldest[T any](all *[]T, of func(*T) (at int64, counts bool)) bool {
	i := oldest(*all, of)
	if i >= 0 {
		*all = slices.Delete(*all, i, i+1)
	}
	return i >= 0
}
