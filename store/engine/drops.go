package engine

import (
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
)

// NewDrops returns n occurrences that a bucket refused, of one or several writes like w. They are empty if n is less than 1 or if
// the bucket has no notices. One write adds at most MaxOccurrences.
func NewDrops(now time.Time, w store.Write, l *store.Limits, b *store.Bucket, n int64) Drops {
	if n <= 0 || b.Silent {
		return Drops{}
	}
	w = sanitize(now, w)
	weight, from := capOccurrences(n, &w, maxWeight), nameKey(w.Namespace)
	n = capOccurrences(n, &w, MaxOccurrences)
	d := Drops{
		InvolvedObject: clipObject(b.NoticeObject), Bucket: store.Clip(b.Name, ruleBytes), Policy: store.Clip(b.Policy, ruleBytes),
		Window: micros(l.Window), writeInterval: l.WriteInterval, maxWriteInterval: l.MaxWriteInterval, namespace: w.Namespace, limitID: b.LimitID,
		First: now.UnixMicro(), Last: now.UnixMicro(), Total: n, Warnings: w.Warning,
		Reasons: []TopItem{{displayReason(w.Reason), n, weight, from}}, Sources: []TopItem{{w.Source.Component, n, weight, from}},
		Objects:         []TopItem{{Name: store.Clip(w.InvolvedObject.String(), nameBytes), NamespaceHash: from}},
		DistinctObjects: newDistinct(&w.InvolvedObject), OtherKinds: w.InvolvedObject.Kind != "Pod",
	}
	if !w.Workload.IsZero() {
		d.Workloads = []TopItem{{store.Clip(w.Workload.Describe(), nameBytes), n, weight, from}}
		d.Workload, d.DistinctWorkloads = w.Workload, newDistinct(&w.Workload)
	}
	d.Reason = combinedReason(&w, b)
	return d
}

// combinedReason returns the reason under which a bucket reports a refused write; empty for EventsDropped.
func combinedReason(w *store.Write, b *store.Bucket) string {
	if !b.Combined || w.Reason == store.ReasonDropped {
		return ""
	}
	return displayReason(w.Reason)
}

// Merge adds other drops of the same bucket, and takes over their settings.
func (d *Drops) Merge(o *Drops) {
	if d.mergeSinkLoss(o) {
		return
	}
	tallies, objects := d.listLimits()
	d.Window, d.writeInterval, d.maxWriteInterval = o.Window, o.writeInterval, o.maxWriteInterval
	d.First, d.Last = min(d.First, o.First), max(d.Last, o.Last)
	d.Total += o.Total
	d.Warnings = d.Warnings || o.Warnings
	d.OtherKinds = d.OtherKinds || o.OtherKinds
	for _, t := range o.Reasons {
		d.Reasons = addToTop(d.Reasons, t, tallies)
	}
	for _, t := range o.Sources {
		d.Sources = addToTop(d.Sources, t, tallies)
	}
	for _, t := range o.Workloads {
		d.Workloads = addToTop(d.Workloads, t, tallies)
	}
	for _, object := range slices.Backward(o.Objects) {
		d.Objects = addNewest(d.Objects, object, objects)
	}
	if d.Workload.IsZero() {
		d.Workload = o.Workload
	}
	d.DistinctObjects.Merge(o.DistinctObjects)
	d.DistinctWorkloads.Merge(o.DistinctWorkloads)
}

// listLimits returns how many entries and objects the lists of d may have. There may be many combined notices, so theirs are shorter.
func (d *Drops) listLimits() (tallies, objects int) {
	if d.Reason != "" {
		return combinedTallies, combinedObjects
	}
	return maxTallies, maxObjects
}

// clone returns an independent copy.
func (d *Drops) clone() Drops {
	c := *d
	for _, list := range []*[]TopItem{&c.Reasons, &c.Sources, &c.Objects, &c.Workloads} {
		*list = slices.Clone(*list)
	}
	c.DistinctObjects, c.DistinctWorkloads = slices.Clone(c.DistinctObjects), slices.Clone(c.DistinctWorkloads)
	return c
}

// withoutReason returns d for the notice of all reasons.
func (d *Drops) withoutReason() *Drops {
	r := *d
	r.Reason = ""
	return &r
}

// sameNotice reports whether the same notice reports both.
func (d *Drops) sameNotice(o *Drops) bool {
	return d.Bucket == o.Bucket && d.Policy == o.Policy && d.Reason == o.Reason && (d.Reason == "" || d.Warnings == o.Warnings)
}

// DropList has the drops for the notices of one register, one entry for each notice. Its length is bounded.
type DropList []Drops

// Merge adds drops.
func (l *DropList) Merge(o *Drops) {
	if o.IsEmpty() {
		return
	}
	i := slices.IndexFunc(*l, func(d Drops) bool { return d.sameNotice(o) })
	switch {
	case i >= 0:
		(*l)[i].Merge(o)
	case o.Reason != "" && len(*l) >= maxReasons:
		l.Merge(o.withoutReason())
	default:
		*l = append(*l, o.clone())
	}
}

// Clone returns an independent copy.
func (l DropList) Clone() DropList { return cloneEach(l, func(d *Drops) { *d = d.clone() }) }

// IsCounted reports whether any of the drops is counted, see Drops.IsCounted.
func (l DropList) IsCounted() bool {
	return slices.ContainsFunc(l, func(d Drops) bool { return d.IsCounted() })
}

// Size returns the sum of the sizes of all drops.
func (l DropList) Size() (n int64) {
	for i := range l {
		n += l[i].Size()
	}
	return n
}

// Size estimates the memory of d, in bytes; 0 if it is empty.
func (d *Drops) Size() int64 {
	if d.IsEmpty() {
		return 0
	}
	return int64(noticeBytes + d.textBytes())
}

// textBytes returns the size of everything in d that has no fixed size.
func (d *Drops) textBytes() int {
	return objectBytes(&d.InvolvedObject) + len(d.Bucket) + len(d.Policy) + len(d.Reason) + objectBytes(&d.Workload) +
		topItemsBytes(d.Reasons) + topItemsBytes(d.Sources) + topItemsBytes(d.Objects) + topItemsBytes(d.Workloads) + len(d.DistinctObjects) + len(d.DistinctWorkloads)
}

// newNoticeName returns the name of a notice. It is unique, and the same for every settler.
func newNoticeName(fresh store.Key, id uint64) string {
	return "eventquota-" + new(store.Hasher).AddKey(fresh).Add(strconv.FormatUint(id, 10)).Sum().String()
}

// Overflow changes d to drops of the limit's overflow bucket, and returns the register of its notice. It returns false if the
// limit has no overflow bucket, because policies and quotas bound the number of its buckets.
func (d *Drops) Overflow() (register store.Key, ok bool) {
	if d.limitID == "" {
		return register, false
	}
	b := (&store.Bucket{Name: d.Bucket, LimitID: d.limitID}).Overflow(d.namespace)
	d.InvolvedObject, d.Bucket, d.limitID = b.NoticeObject, b.Name, ""
	return NoticeKey(&b), true
}

// IsCounted reports whether the register of the notice counts against the limit of its namespace.
func (d *Drops) IsCounted() bool { return d.limitID != "" }

// NoticeKey returns the key of the register that has the notice of a quota.
func NoticeKey(b *store.Bucket) store.Key { return new(store.Hasher).Add("notice").AddKey(b.Key).Sum() }
