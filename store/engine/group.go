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

// CountedNamespace returns the namespace whose limit of registers g counts against: that of the Events that caused it.
func (g *Group) CountedNamespace() string { return cmp.Or(g.OriginNamespace, g.Namespace) }

// noticeTurn begins the turns of registers that have only notices. No name of a namespace contains it.
const noticeTurn = "/"

// Turn names the turn in which g is written: that of the namespace of the Events that caused it. Notices of quotas have turns
// apart from the counts of stored Events, in whichever namespace they are written. So the notices that one namespace causes delay
// neither those of another nor its own counts.
func (g *Group) Turn() string {
	if g.Object.IsZero() {
		return noticeTurn + g.CountedNamespace()
	}
	return g.Namespace
}

// Snapshot is a copy of a part of the state of a store.
type Snapshot struct {
	At      time.Time // by the clock of the store
	Groups  map[store.Key]*Group
	Buckets map[store.Key]BucketState // of quotas
}

// The bounds of a group, besides those of its stored Events.
const (
	maxSimilar  = 64  // kinds of similar Events
	maxBuckets  = 16  // spam buckets
	maxReserves = 16  // reasons with a reserve in a spam bucket
	maxNames    = 256 // refused names
	maxNotices  = 8   // notices in their window or pending, without combined ones
	maxTallies  = 16  // reasons, sources and workloads in a notice
	maxObjects  = 10  // objects in a notice
	maxReasons  = 16  // combined notices of a bucket in a window, one for each reason and type
	maxCombined = 24  // combined notices in their window or pending

	combinedTallies = 4 // sources and workloads in a combined notice
	combinedObjects = 3 // objects in a combined notice
)

// Expired reports whether g can be deleted at now.
func (g *Group) Expired(now time.Time) bool { return now.UnixMicro() > g.KeepUntil && g.Due().IsZero() }

// ExpiresAt returns when g can be deleted. It is in the year 2255 while a write is pending.
func (g *Group) ExpiresAt() time.Time {
	if !g.Due().IsZero() {
		return DueBy(time.Time{}, maxDuration)
	}
	return time.UnixMicro(g.KeepUntil + 1)
}

// Clone returns an independent copy of g.
func (g *Group) Clone() *Group {
	c := *g
	c.Events = cloneEach(g.Events, func(r *TrackedEvent) { r.Messages, r.Stamps = slices.Clone(r.Messages), slices.Clone(r.Stamps) })
	c.Similar = cloneEach(g.Similar, func(s *SimilarEvents) { s.Messages = slices.Clone(s.Messages) })
	c.Buckets = cloneEach(g.Buckets, func(b *SpamBucket) { b.Reserves = slices.Clone(b.Reserves) })
	c.RefusedNames, c.LastSteps, c.Notices = slices.Clone(g.RefusedNames), slices.Clone(g.LastSteps), g.Notices.clone()
	return &c
}

// cloneEach returns a copy of all. deepen copies what an element refers to.
func cloneEach[T any](all []T, deepen func(*T)) []T {
	all = slices.Clone(all)
	for i := range all {
		deepen(&all[i])
	}
	return all
}

// byKey finds the stored Event into which Events of a key are merged.
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

// countKnown reports whether the number of occurrences under r's own name is known.
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

// addEvent adds a tracked Event without a name. It invalidates pointers to others.
func (g *Group) addEvent(key store.Key) *TrackedEvent {
	g.Events = append(g.Events, TrackedEvent{ID: g.newID(), Key: key})
	return &g.Events[len(g.Events)-1]
}

// alreadyReported returns how many of a write's occurrences were reported before under its name, and how many of these are a
// guess.
//
// An unknown name may have been refused by a quota. If the register existed at its first occurrence, only that occurrence was
// refused; otherwise every occurrence was. So a recorder that counts up by one is counted exactly. If a recorder skips counts
// while nothing is known of its object, the skipped ones are lost. If the first occurrence is older than names are kept, and the
// refused writes continue under that name, all but the newest occurrence were reported. A stored Event continues with the
// count of its recorder.
//
// If o was decided elsewhere, its guess is kept, whatever the register is now. So the order in which
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

// nameKey returns a short key of a whole name or reason.
func nameKey(name string) uint64 {
	var text [320]byte // nearly all fit without an allocation; a larger array would grow the stack of each goroutine
	sum := sha256.Sum256(append(text[:0], name...))
	return binary.BigEndian.Uint64(sum[:8])
}

// short returns half a key, which is enough within a group.
func short(key store.Key) uint64 { return binary.BigEndian.Uint64(key[:8]) }

// refusedName finds a refused name that has not expired.
func (g *Group) refusedName(now int64, key uint64, l *store.Limits) *RefusedName {
	for i := range g.RefusedNames {
		if n := &g.RefusedNames[i]; n.Key == key && int64(seconds(now))-int64(n.At) <= micros(l.IdenticalWindow)/second {
			return n
		}
	}
	return nil
}

const second = int64(time.Second / time.Microsecond)

// seconds converts a time from microseconds, clamped to the years 1970 to 2106.
func seconds(at int64) uint32 { return saturated(at / second) }

// saturated returns n, or the nearest number that fits.
func saturated(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// removeName removes and returns a refused name.
func (g *Group) removeName(key uint64) RefusedName {
	i := slices.IndexFunc(g.RefusedNames, func(n RefusedName) bool { return n.Key == key })
	if i < 0 {
		return RefusedName{}
	}
	n := g.RefusedNames[i]
	g.RefusedNames = slices.Delete(g.RefusedNames, i, i+1)
	return n
}

// Sizes of the parts of a Group without their texts, in memory and with the runtime's overhead. Encoded, they are smaller.
const (
	groupBytes, recordBytes, noticeBytes = 480, 488, 480
	similarBytes, bucketBytes            = 88, 64
	reserveBytes, refusedNameBytes       = 32, 48
	tallyBytes, topItemBytes, keyBytes   = 32, 48, 9
	stampBytes                           = 20
)

// Size estimates the memory of g, in bytes. The encoded group is never larger.
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
		n += recordBytes + len(r.Name) + len(r.UID) + len(r.Version) + len(r.Reason) + len(r.Text) + talliesBytes(r.Messages) + len(r.Stamps)*stampBytes
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

// dropLeastUseful removes the least useful part of g, and reports whether there was one. It first removes kept messages, Events
// without a pending write and kinds of similar Events, the least recently used one of each. The next are other Events, whose counts
// move to the notice. The last are details of notices, and refused names.
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

// oldest returns the index of the element with the earliest time, of those that count, or -1.
func oldest[T any](all []T, of func(*T) (at int64, counts bool)) int {
	found, first := -1, int64(0)
	for i := range all {
		if at, counts := of(&all[i]); counts && (found < 0 || at < first) {
			found, first = i, at
		}
	}
	return found
}

// forgetOldest removes the element with the earliest time, of those that count, and reports whether there was one.
func forgetOldest[T any](all *[]T, of func(*T) (at int64, counts bool)) bool {
	i := oldest(*all, of)
	if i >= 0 {
		*all = slices.Delete(*all, i, i+1)
	}
	return i >= 0
}
