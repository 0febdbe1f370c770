package engine

import (
	"bytes"
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
)

// DueBy returns now plus ahead. If ahead is 142 years or more, everything pending is due by then.
func DueBy(now time.Time, ahead time.Duration) time.Time {
	if ahead >= maxDuration {
		return time.UnixMicro(math.MaxInt64 / 2)
	}
	return now.Truncate(time.Microsecond).Add(time.Duration(micros(ahead)) * time.Microsecond)
}

// Claim returns the writes that are due by then. Notices come last, as they include occurrences that Events have handed over.
func (g *Group) Claim(group store.Key, by time.Time) []store.PendingWrite {
	var writes []store.PendingWrite
	at := by.UnixMicro()
	for i := range g.Events {
		if r := &g.Events[i]; r.Due != 0 && r.Due <= at {
			writes = append(writes, g.pendingWrite(group, r))
		}
	}
	return g.Notices.claim(group, at, writes)
}

// DiscardPending clears pending writes, as no settler writes them.
func (g *Group) DiscardPending() {
	for i := range g.Events {
		r := &g.Events[i]
		r.Written, r.Due = r.Total, 0
	}
	g.Notices.discard()
}

func (g *Group) pendingWrite(group store.Key, r *TrackedEvent) store.PendingWrite {
	return store.PendingWrite{
		Ref:       store.Ref{Group: group, ID: r.ID},
		Namespace: g.Namespace, Name: r.Name, UID: r.UID, ResourceVersion: r.Version, CreateID: r.CreateID,
		ObjectKey: g.Object, Key: r.Key,
		Occurrences: r.Occurrences, Written: r.Written, Series: r.Series,
		LastSeen: timeOf(r.LastSeen), Due: timeOf(r.Due), Text: r.Text, Messages: slices.Clone(r.Messages),
		FailingSince: timeOf(r.FailingSince), Changes: r.Changes,
	}
}

func (n *Notice) pendingWrite(group store.Key) store.PendingWrite {
	return store.PendingWrite{
		Ref:       store.Ref{Group: group, ID: n.ID},
		Namespace: n.InvolvedObject.NoticeNamespace(), Name: n.Name, UID: n.UID, ResourceVersion: n.Version,
		Occurrences: store.Occurrences{Own: n.Total, Total: n.Total}, Written: n.Written, LastSeen: timeOf(n.Last), Due: timeOf(n.Due),
		FailingSince: timeOf(n.FailingSince), Changes: n.Changes,
		Notice: &store.Notice{
			InvolvedObject: n.InvolvedObject, Bucket: n.Bucket, Policy: n.Policy, First: timeOf(n.First), Warnings: n.Warnings,
			Reasons: Tallies(n.Reasons), Sources: Tallies(n.Sources), Objects: itemNames(n.Objects), NotInSink: n.NotInSink,
			Reason: n.Reason, Workloads: Tallies(n.Workloads), Workload: n.onlyWorkload(),
			ObjectCount: n.cardinality(n.DistinctObjects), WorkloadCount: n.cardinality(n.DistinctWorkloads), AllPods: !n.OtherKinds,
		},
	}
}

// onlyWorkload returns the workload of the dropped Events if exactly one is known, and otherwise the zero value.
func (d *Drops) onlyWorkload() store.Object {
	if n, _ := d.DistinctWorkloads.Count(); n == 1 {
		return d.Workload
	}
	return store.Object{}
}

// cardinality returns how many distinct things were counted, at most the number of occurrences, however clients choose the names.
func (d *Drops) cardinality(of Distinct) store.Cardinality {
	n, exact := of.Count()
	return store.Cardinality{N: min(n, d.Total), Estimated: !exact}
}

// Complete records the outcome of a write. It ignores a write that no longer exists.
func (g *Group) Complete(now time.Time, fresh store.Key, p *store.PendingWrite, o store.Outcome) {
	defer g.shrinkToFit(now, fresh)
	g.CorrectTimes(now)
	at := now.UnixMicro()
	if p.Notice != nil {
		g.Notices.complete(at, fresh, p, o)
		return
	}
	r := g.byID(p.Ref.ID)
	if r == nil || r.Name != p.Name {
		// Another Event has taken its place. This one may have been created late, and its count
		// belongs to the other one now.
		if r = g.byName(p.Name); r != nil {
			r.Version = ""
			r.markChanged(at)
		}
		return
	}
	switch o.Result {
	case store.Written:
		r.Adopt(o.Stored)
		r.Adopt(store.Stored{Count: p.Total, Merged: p.Merged()}) // a lost register does not have it
		r.Annotated, r.Written, r.UID, r.Version = p.Merged(), p.Total, o.UID, o.ResourceVersion
		r.finishWrite(at, p.Changes, true)
	case store.NotFound, store.NameTaken:
		g.markNotFound(now, fresh, r, o.Result == store.NameTaken)
	case store.Rejected:
		if o.Stored.Count > 0 { // after a crash of a settler it may differ from the known count
			r.Adopt(o.Stored)
			r.Written = o.Stored.Count
		}
		n := max(0, r.Total-r.Written)
		r.Total, r.Due = r.Total-n, 0
		r.Changes++
		g.moveToNotice(now, fresh, r, n)
	case store.Failed:
		r.backOff(at)
	case store.Read:
		r.Adopt(o.Stored)
		r.UID, r.Version, r.Written = o.UID, o.ResourceVersion, o.Stored.Count
		r.Changes++
		r.Due = at
	case store.GivenUp:
		r.Total -= min(p.Unreported(), max(0, r.Total-r.Written)) // another settler may have written it
		r.finishWrite(at, p.Changes, false)
	}
}

// markNotFound records that the API server has no such Event. Its occurrences wait for the next Event
// of its key, for at most one window, and then move to a notice.
func (g *Group) markNotFound(now time.Time, fresh store.Key, r *TrackedEvent, taken bool) {
	at := now.UnixMicro()
	if r.Name == "" {
		g.abandonEvent(now, fresh, r.ID)
		return
	}
	name := g.rememberName(at, nameKey(r.Name), r.Own, r.stampOf(r.Own))
	name.NameTaken, name.AssumedReported = taken, saturated(r.AssumedReported)
	r.Name, r.UID, r.CreateID, r.Version, r.Own, r.Stamps, r.AssumedReported, r.Unexplained, r.UnexplainedAt = "", "", 0, "", 0, nil, 0, 0, 0
	r.Changes++
	r.FailingSince = 0
	r.Due = at + r.Window
}

// abandonEvent removes an Event. The notice of g reports its pending occurrences.
func (g *Group) abandonEvent(now time.Time, fresh store.Key, id uint64) {
	r := *g.byID(id)
	g.Events = slices.DeleteFunc(g.Events, func(r TrackedEvent) bool { return r.ID == id })
	g.moveToNotice(now, fresh, &r, r.Total-r.Written)
}

// moveToNotice adds n occurrences of an Event to the notice of g.
func (g *Group) moveToNotice(now time.Time, fresh store.Key, r *TrackedEvent, n int64) {
	w := store.Write{Reason: r.Reason, Warning: r.Warning, InvolvedObject: g.InvolvedObject, Source: g.Source}
	l := store.Limits{
		Window:        time.Duration(r.Window) * time.Microsecond,
		WriteInterval: time.Duration(r.Interval) * time.Microsecond, MaxWriteInterval: time.Duration(r.MaxInterval) * time.Microsecond,
	}
	drops := NewDrops(now, w, &l, &store.Bucket{NoticeObject: g.InvolvedObject}, n)
	g.addDrops(now, fresh, &drops)
}

func (n *Notice) complete(now int64, fresh store.Key, p *store.PendingWrite, o store.Outcome) {
	switch o.Result {
	case store.Written:
		n.Total = max(n.Total, p.Total, o.Stored.Count) // a lost register may have had more
		n.Written, n.UID, n.Version = max(p.Total, o.Stored.Count), o.UID, o.ResourceVersion
		n.finishWrite(now, p.Changes, true)
	case store.NotFound:
		n.UID, n.Version, n.Written = "", "", 0
		n.Due = n.nextWrite(now)
	case store.NameTaken:
		n.Name, n.UID, n.Version = newNoticeName(fresh, n.ID), "", ""
		n.Due = n.nextWrite(now)
	case store.Failed:
		n.backOff(now)
	case store.Read:
	case store.Rejected, store.GivenUp:
		n.Written = max(n.Written, p.Total)
		n.finishWrite(now, p.Changes, false)
	}
}

// DueGroup is a register with a due write.
type DueGroup struct {
	Group store.Key
	Turn  string // Group.Turn
	Due   int64  // in microseconds of Unix time
}

// Namespace returns the namespace that caused the register.
func (d *DueGroup) Namespace() string { return strings.TrimPrefix(d.Turn, noticeTurn) }

// RoundRobin serves turns in the order of their names. The zero value begins with the first.
// It is safe for concurrent use.
type RoundRobin struct {
	mu   sync.Mutex
	last string // the turn that was served last
}

// DueQueue has the due groups of one turn.
type DueQueue interface {
	// Next removes and returns the most overdue group, by key if several are due at the same time. It returns false
	// if there is none.
	Next() (DueGroup, bool)
}

// Pick returns up to n registers that are not claimed. The turns alternate, and within a turn the most overdue comes
// first. It calls claimed for each register that it considers, and removes only those from due.
func (t *RoundRobin) Pick(due map[string]DueQueue, n int, claimed func(turn string, group store.Key) bool) []DueGroup {
	t.mu.Lock()
	defer t.mu.Unlock()
	turns := slices.Sorted(maps.Keys(due))
	next, found := slices.BinarySearch(turns, t.last)
	if found {
		next++
	}
	turns = append(turns[next:], turns[:next]...)
	var picked []DueGroup
	for len(turns) > 0 && len(picked) < n {
		turns = slices.DeleteFunc(turns, func(turn string) bool {
			if len(picked) >= n {
				return false
			}
			for first, ok := due[turn].Next(); ok; first, ok = due[turn].Next() {
				if !claimed(turn, first.Group) {
					picked, t.last = append(picked, first), turn
					return false
				}
			}
			return true
		})
	}
	return picked
}

// DueQueues sorts due groups into a queue for each turn.
func DueQueues(due []DueGroup) map[string]DueQueue {
	turns := map[string]DueQueue{}
	for i := range due {
		turn, known := turns[due[i].Turn].(*dueHeap)
		if !known {
			turn = &dueHeap{groups: due}
			turns[due[i].Turn] = turn
		}
		turn.indexes = append(turn.indexes, int32(i))
	}
	return turns
}

// dueHeap has the registers of one turn. It becomes a heap when the first is removed. Most are never picked, so they are not sorted.
type dueHeap struct {
	groups  []DueGroup
	indexes []int32 // in all
	isHeap  bool
}

// Next implements DueQueue.
func (o *dueHeap) Next() (DueGroup, bool) {
	if len(o.indexes) == 0 {
		return DueGroup{}, false
	}
	if !o.isHeap {
		heap.Init(o)
		o.isHeap = true
	}
	first, _ := heap.Pop(o).(int32)
	return o.groups[first], true
}

// Compare orders groups by how long they have been due, the longest first.
func (d *DueGroup) Compare(o *DueGroup) int {
	return cmp.Or(cmp.Compare(d.Due, o.Due), bytes.Compare(d.Group[:], o.Group[:]))
}

// Len implements heap.Interface, as do Less, Swap, Push and Pop.
func (o *dueHeap) Len() int { return len(o.indexes) }

// Less implements heap.Interface.
func (o *dueHeap) Less(i, j int) bool {
	return o.groups[o.indexes[i]].Compare(&o.groups[o.indexes[j]]) < 0
}

// Swap implements heap.Interface.
func (o *dueHeap) Swap(i, j int) { o.indexes[i], o.indexes[j] = o.indexes[j], o.indexes[i] }

// Push implements heap.Interface.
func (o *dueHeap) Push(x any) { o.indexes = append(o.indexes, x.(int32)) }

// Pop implements heap.Interface.
func (o *dueHeap) Pop() any {
	last := o.indexes[len(o.indexes)-1]
	o.indexes = o.indexes[:len(o.indexes)-1]
	return last
}
