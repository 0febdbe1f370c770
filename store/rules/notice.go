package rules

import (
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Dropped are n occurrences that a bucket refused, of a write like w or of several; none for less than 1, and where no notice
// reports them. One write adds MaxOccurrences at most.
func Dropped(now time.Time, w store.Write, l *store.Limits, b *store.Bucket, n int64) Drops {
	if n <= 0 || b.Silent {
		return Drops{}
	}
	w = clipped(now, w)
	weight, from := bounded(n, &w, maxWeight), nameKey(w.Namespace)
	n = bounded(n, &w, MaxOccurrences)
	d := Drops{
		About: clippedObject(b.About), Bucket: store.Clip(b.Name, ruleBytes), Policy: store.Clip(b.Policy, ruleBytes),
		Window: micros(l.Window), interval: l.WriteInterval, most: l.MaxWriteInterval, from: w.Namespace, of: b.Of,
		First: now.UnixMicro(), Last: now.UnixMicro(), Total: n, Warnings: w.Warning,
		Reasons: []Listed{{shownReason(w.Reason), n, weight, from}}, Sources: []Listed{{w.Source.Component, n, weight, from}},
		Objects:  []Listed{{What: store.Clip(w.About.String(), nameBytes), From: from}},
		Involved: distinct(&w.About), Others: w.About.Kind != "Pod",
	}
	if !w.Workload.IsZero() {
		d.Workloads = []Listed{{store.Clip(w.Workload.Named(), nameBytes), n, weight, from}}
		d.Workload, d.Belonging = w.Workload, distinct(&w.Workload)
	}
	d.Reason = combinedReason(&w, b)
	return d
}

// combinedReason is the reason under which a bucket reports a write that it refuses; empty for EventsDropped.
func combinedReason(w *store.Write, b *store.Bucket) string {
	if !b.Combined || w.Reason == store.ReasonDropped {
		return ""
	}
	return shownReason(w.Reason)
}

// Merge adds other drops of the same bucket, whose settings it takes over.
func (d *Drops) Merge(o *Drops) {
	if d.joinMissing(o) {
		return
	}
	tallies, objects := d.places()
	d.Window, d.interval, d.most = o.Window, o.interval, o.most
	d.First, d.Last = min(d.First, o.First), max(d.Last, o.Last)
	d.Total += o.Total
	d.Warnings = d.Warnings || o.Warnings
	d.Others = d.Others || o.Others
	for _, t := range o.Reasons {
		d.Reasons = tally(d.Reasons, t, tallies)
	}
	for _, t := range o.Sources {
		d.Sources = tally(d.Sources, t, tallies)
	}
	for _, t := range o.Workloads {
		d.Workloads = tally(d.Workloads, t, tallies)
	}
	for _, object := range slices.Backward(o.Objects) {
		d.Objects = latest(d.Objects, object, objects)
	}
	if d.Workload.IsZero() {
		d.Workload = o.Workload
	}
	d.Involved.Merge(o.Involved)
	d.Belonging.Merge(o.Belonging)
}

// places is how many things and objects d lists at most. There may be many combined notices, so they list less.
func (d *Drops) places() (tallies, objects int) {
	if d.Reason != "" {
		return combinedTallies, combinedObjects
	}
	return maxTallies, maxObjects
}

// clone is an independent copy.
func (d *Drops) clone() Drops {
	c := *d
	for _, list := range []*[]Listed{&c.Reasons, &c.Sources, &c.Objects, &c.Workloads} {
		*list = slices.Clone(*list)
	}
	c.Involved, c.Belonging = slices.Clone(c.Involved), slices.Clone(c.Belonging)
	return c
}

// rest is d for the notice of all reasons.
func (d *Drops) rest() *Drops {
	r := *d
	r.Reason = ""
	return &r
}

// together reports whether one notice reports both.
func (d *Drops) together(o *Drops) bool {
	return d.Bucket == o.Bucket && d.Policy == o.Policy && d.Reason == o.Reason && (d.Reason == "" || d.Warnings == o.Warnings)
}

// DropList are drops for the notices of one register, each for another one, within a bound.
type DropList []Drops

// Merge adds drops.
func (l *DropList) Merge(o *Drops) {
	if o.None() {
		return
	}
	i := slices.IndexFunc(*l, func(d Drops) bool { return d.together(o) })
	switch {
	case i >= 0:
		(*l)[i].Merge(o)
	case o.Reason != "" && len(*l) >= maxReasons:
		l.Merge(o.rest())
	default:
		*l = append(*l, o.clone())
	}
}

// Clone is an independent copy.
func (l DropList) Clone() DropList { return cloned(l, func(d *Drops) { *d = d.clone() }) }

// Counted reports whether any of them is.
func (l DropList) Counted() bool {
	return slices.ContainsFunc(l, func(d Drops) bool { return d.Counted() })
}

// Size is the sum of their sizes.
func (l DropList) Size() (n int64) {
	for i := range l {
		n += l[i].Size()
	}
	return n
}

// Size estimates the memory of d, in bytes; 0 for none.
func (d *Drops) Size() int64 {
	if d.None() {
		return 0
	}
	return int64(noticeBytes + d.texts())
}

// texts are the bytes of all that has no fixed size.
func (d *Drops) texts() int {
	return objectBytes(&d.About) + len(d.Bucket) + len(d.Policy) + len(d.Reason) + objectBytes(&d.Workload) +
		listedBytes(d.Reasons) + listedBytes(d.Sources) + listedBytes(d.Objects) + listedBytes(d.Workloads) + len(d.Involved) + len(d.Belonging)
}

// noticeName is unique, and the same for every settler.
func noticeName(fresh store.Key, id uint64) string {
	return "eventquota-" + new(store.Hasher).AddKey(fresh).Add(strconv.FormatUint(id, 10)).Sum().String()
}

// Overflow makes d those of the overflow bucket of the limit, and names the register of its notice. It reports whether
// there is one: not where the rules bound the number of notices.
func (d *Drops) Overflow() (register store.Key, ok bool) {
	if d.of == "" {
		return register, false
	}
	b := (&store.Bucket{Name: d.Bucket, Of: d.of}).Overflow(d.from)
	d.About, d.Bucket, d.of = b.About, b.Name, ""
	return NoticeKey(&b), true
}

// Counted reports whether the register of a notice with d is refused where its namespace has as many as it may.
func (d *Drops) Counted() bool { return d.of != "" }

// NoticeKey names the register that has the notice of a quota.
func NoticeKey(b *store.Bucket) store.Key { return new(store.Hasher).Add("notice").AddKey(b.Key).Sum() }
