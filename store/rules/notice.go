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
	return Drops{
		About: clippedObject(b.About), Bucket: store.Clip(b.Name, ruleBytes), Policy: store.Clip(b.Policy, ruleBytes),
		Window: micros(l.Window), interval: l.WriteInterval, most: l.MaxWriteInterval, from: w.Namespace, of: b.Of,
		First: now.UnixMicro(), Last: now.UnixMicro(), Total: n, Warnings: w.Warning,
		Reasons: []Listed{{shownReason(w.Reason), n, weight, from}}, Sources: []Listed{{w.Source.Component, n, weight, from}},
		Objects: []Listed{{What: store.Clip(w.About.String(), nameBytes), From: from}},
	}
}

// Merge adds other drops of the same bucket, whose settings it takes over.
func (d *Drops) Merge(o *Drops) {
	if d.joinMissing(o) {
		return
	}
	d.Window, d.interval, d.most = o.Window, o.interval, o.most
	d.First, d.Last = min(d.First, o.First), max(d.Last, o.Last)
	d.Total += o.Total
	d.Warnings = d.Warnings || o.Warnings
	for _, t := range o.Reasons {
		d.Reasons = tally(d.Reasons, t)
	}
	for _, t := range o.Sources {
		d.Sources = tally(d.Sources, t)
	}
	for _, object := range slices.Backward(o.Objects) {
		d.Objects = latest(d.Objects, object)
	}
}

// Size estimates the memory of d, in bytes; 0 for none.
func (d *Drops) Size() int64 {
	if d.None() {
		return 0
	}
	n := noticeBytes + objectBytes(&d.About) + len(d.Bucket) + len(d.Policy) +
		listedBytes(d.Reasons) + listedBytes(d.Sources) + listedBytes(d.Objects)
	return int64(n)
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
