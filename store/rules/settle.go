package rules

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

// By is the moment that is ahead of now: all that is pending is due by then, if that is 142 years or more ahead.
func By(now time.Time, ahead time.Duration) time.Time {
	if ahead >= longest {
		return time.UnixMicro(math.MaxInt64 / 2)
	}
	return now.Truncate(time.Microsecond).Add(time.Duration(micros(ahead)) * time.Microsecond)
}

// Claim is what is due by then, the notice last: what it takes over from Events is in it already.
func (g *Group) Claim(group store.Key, by time.Time) []store.PendingWrite {
	var writes []store.PendingWrite
	at := by.UnixMicro()
	for i := range g.Records {
		if r := &g.Records[i]; r.Due != 0 && r.Due <= at {
			writes = append(writes, g.pending(group, r))
		}
	}
	return g.Notices.claim(group, at, writes)
}

// Discard notes that nothing is pending, as nobody settles.
func (g *Group) Discard() {
	for i := range g.Records {
		r := &g.Records[i]
		r.Written, r.Due = r.Total, 0
	}
	g.Notices.discard()
}

func (g *Group) pending(group store.Key, r *Record) store.PendingWrite {
	return store.PendingWrite{
		Ref:       store.Ref{Group: group, ID: r.ID},
		Namespace: g.Namespace, Name: r.Name, UID: r.UID, ResourceVersion: r.Version, CreateID: r.CreateID,
		Object: g.Object, Key: r.Key,
		Occurrences: r.Occurrences, Written: r.Written, Series: r.Series,
		Last: moment(r.Last), Due: moment(r.Due), Text: r.Text, Messages: slices.Clone(r.Messages),
		Failing: moment(r.Failing), Changes: r.Changes,
	}
}

func (n *Notice) pending(group store.Key) store.PendingWrite {
	return store.PendingWrite{
		Ref:       store.Ref{Group: group, ID: n.ID},
		Namespace: n.About.NoticeNamespace(), Name: n.Name, UID: n.UID, ResourceVersion: n.Version,
		Occurrences: store.Occurrences{Own: n.Total, Total: n.Total}, Written: n.Written, Last: moment(n.Last), Due: moment(n.Due),
		Failing: moment(n.Failing), Changes: n.Changes,
		Notice: &store.Notice{
			About: n.About, Bucket: n.Bucket, Policy: n.Policy, First: moment(n.First), Warnings: n.Warnings,
			Reasons: Tallied(n.Reasons), Sources: Tallied(n.Sources), Objects: named(n.Objects), Missing: n.Missing,
			Reason: n.Reason, Workloads: Tallied(n.Workloads), Workload: n.workload(),
			Involved: n.number(n.Involved), Belonging: n.number(n.Belonging), Pods: !n.Others,
		},
	}
}

// workload is the only workload that is known of what was dropped; the zero value if there is none, or more.
func (d *Drops) workload() store.Object {
	if n, _ := d.Belonging.Count(); n == 1 {
		return d.Workload
	}
	return store.Object{}
}

// number is how many things were counted: no more than there were occurrences, whatever their names were chosen for.
func (d *Drops) number(of Distinct) store.Number {
	n, exact := of.Count()
	return store.Number{N: min(n, d.Total), About: !exact}
}

// Complete notes the outcome of a write. A write that is not known any more is ignored.
func (g *Group) Complete(now time.Time, fresh store.Key, p *store.PendingWrite, o store.Outcome) {
	defer g.fit(now, fresh)
	g.Correct(now)
	at := now.UnixMicro()
	if p.Notice != nil {
		g.Notices.complete(at, fresh, p, o)
		return
	}
	r := g.byID(p.Ref.ID)
	if r == nil || r.Name != p.Name {
		// Another Event has taken its place. This one may have been created late, and have got a
		// count that is the other's now.
		if r = g.byName(p.Name); r != nil {
			r.Version = ""
			r.change(at)
		}
		return
	}
	switch o.Result {
	case store.Written:
		r.Adopt(o.Stored)
		r.Adopt(store.Stored{Count: p.Total, Merged: p.Merged()}) // a register that was lost does not know it
		r.Noted, r.Written, r.UID, r.Version = p.Merged(), p.Total, o.UID, o.ResourceVersion
		r.settled(at, p.Changes, true)
	case store.NotFound, store.NameTaken:
		g.orphan(now, fresh, r, o.Result == store.NameTaken)
	case store.Rejected:
		if o.Stored.Count > 0 { // it may differ from what is known, after a crash of a settler
			r.Adopt(o.Stored)
			r.Written = o.Stored.Count
		}
		n := max(0, r.Total-r.Written)
		r.Total, r.Due = r.Total-n, 0
		r.Changes++
		g.handOver(now, fresh, r, n)
	case store.Failed:
		r.failed(at)
	case store.Read:
		r.Adopt(o.Stored)
		r.UID, r.Version, r.Written = o.UID, o.ResourceVersion, o.Stored.Count
		r.Changes++
		r.Due = at
	case store.GivenUp:
		r.Total -= min(p.Unreported(), max(0, r.Total-r.Written)) // another settler may have written it
		r.settled(at, p.Changes, false)
	}
}

// orphan notes that the API server has no such Event. What it was to report waits for the next Event
// of its key, for a window at most, and then goes to a notice.
func (g *Group) orphan(now time.Time, fresh store.Key, r *Record, taken bool) {
	at := now.UnixMicro()
	if r.Name == "" {
		g.giveUp(now, fresh, r.ID)
		return
	}
	g.remember(at, nameKey(r.Name), r.Own)
	g.Names[len(g.Names)-1].Taken = taken
	r.Name, r.UID, r.CreateID, r.Version, r.Own = "", "", 0, "", 0
	r.Changes++
	r.Failing = 0
	r.Due = at + r.Window
}

// giveUp forgets an Event; the notice of g reports its pending occurrences.
func (g *Group) giveUp(now time.Time, fresh store.Key, id uint64) {
	r := *g.byID(id)
	g.Records = slices.DeleteFunc(g.Records, func(r Record) bool { return r.ID == id })
	g.handOver(now, fresh, &r, r.Total-r.Written)
}

// handOver adds n occurrences of an Event to the notice of g.
func (g *Group) handOver(now time.Time, fresh store.Key, r *Record, n int64) {
	w := store.Write{Reason: r.Reason, Warning: r.Warning, About: g.About, Source: g.Source}
	l := store.Limits{
		Window:        time.Duration(r.Window) * time.Microsecond,
		WriteInterval: time.Duration(r.Interval) * time.Microsecond, MaxWriteInterval: time.Duration(r.Max) * time.Microsecond,
	}
	drops := Dropped(now, w, &l, &store.Bucket{About: g.About}, n)
	g.addDrops(now, fresh, &drops)
}

func (n *Notice) complete(now int64, fresh store.Key, p *store.PendingWrite, o store.Outcome) {
	switch o.Result {
	case store.Written:
		n.Total = max(n.Total, p.Total, o.Stored.Count) // a register that was lost may have less
		n.Written, n.UID, n.Version = max(p.Total, o.Stored.Count), o.UID, o.ResourceVersion
		n.settled(now, p.Changes, true)
	case store.NotFound:
		n.UID, n.Version, n.Written = "", "", 0
		n.Due = n.ready(now)
	case store.NameTaken:
		n.Name, n.UID, n.Version = noticeName(fresh, n.ID), "", ""
		n.Due = n.ready(now)
	case store.Failed:
		n.failed(now)
	case store.Read:
	case store.Rejected, store.GivenUp:
		n.Written = max(n.Written, p.Total)
		n.settled(now, p.Changes, false)
	}
}

// DueGroup is a register with a due write.
type DueGroup struct {
	Group store.Key
	Turn  string // Group.Turn
	Due   int64  // in microseconds of Unix time
}

// Namespace is the one that has made the register.
func (d *DueGroup) Namespace() string { return strings.TrimPrefix(d.Turn, noticeTurn) }

// Turns gives each turn in the order of their names. The zero value begins with the first.
// It is safe for concurrent use.
type Turns struct {
	mu     sync.Mutex
	served string // whose turn was last
}

// Overdue is what is due of one turn.
type Overdue interface {
	// Next takes the group that has been due for longest, of those of the same moment the one with the least key; false
	// if there is none.
	Next() (DueGroup, bool)
}

// Pick picks up to n registers that are not claimed, one of each turn after the other, the most overdue of
// it first. It calls claimed for each register that it considers, and takes no more of due than these.
func (t *Turns) Pick(due map[string]Overdue, n int, claimed func(turn string, group store.Key) bool) []DueGroup {
	t.mu.Lock()
	defer t.mu.Unlock()
	turns := slices.Sorted(maps.Keys(due))
	next, found := slices.BinarySearch(turns, t.served)
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
					picked, t.served = append(picked, first), turn
					return false
				}
			}
			return true
		})
	}
	return picked
}

// ByTurn are groups that are due, in any order, by turn.
func ByTurn(due []DueGroup) map[string]Overdue {
	turns := map[string]Overdue{}
	for i := range due {
		turn, known := turns[due[i].Turn].(*unsorted)
		if !known {
			turn = &unsorted{all: due}
			turns[due[i].Turn] = turn
		}
		turn.places = append(turn.places, int32(i))
	}
	return turns
}

// unsorted are registers of one turn: a heap, once one is taken. Mostly there are many more than are picked, which are not sorted.
type unsorted struct {
	all    []DueGroup
	places []int32 // in all
	isHeap bool
}

// Next implements Overdue.
func (o *unsorted) Next() (DueGroup, bool) {
	if len(o.places) == 0 {
		return DueGroup{}, false
	}
	if !o.isHeap {
		heap.Init(o)
		o.isHeap = true
	}
	first, _ := heap.Pop(o).(int32)
	return o.all[first], true
}

// Compare orders groups by how long they have been due, the longest first.
func (d *DueGroup) Compare(o *DueGroup) int {
	return cmp.Or(cmp.Compare(d.Due, o.Due), bytes.Compare(d.Group[:], o.Group[:]))
}

// Len is container/heap's, as are Less, Swap, Push and Pop.
func (o *unsorted) Len() int { return len(o.places) }

// Less has a fixed order.
func (o *unsorted) Less(i, j int) bool { return o.all[o.places[i]].Compare(&o.all[o.places[j]]) < 0 }

// Swap is container/heap's.
func (o *unsorted) Swap(i, j int) { o.places[i], o.places[j] = o.places[j], o.places[i] }

// Push is container/heap's.
func (o *unsorted) Push(x any) { o.places = append(o.places, x.(int32)) }

// Pop is container/heap's.
func (o *unsorted) Pop() any {
	last := o.places[len(o.places)-1]
	o.places = o.places[:len(o.places)-1]
	return last
}
