package engine

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// SinkLoss are occurrences that a bucket has refused and that are not in the sink. A notice that reports them says so.
type SinkLoss struct {
	// Bucket, Policy and Of are those of the bucket.
	Bucket, Policy, LimitID string
	// Reason and Warnings are those of the Event, where the bucket reports each reason apart.
	Reason   string
	Warnings bool
	// Occurrences are how many, as NewDrops counts them.
	Occurrences int64
}

// NewSinkLoss are n occurrences of a write that a bucket refused; none where no notice reports them.
func NewSinkLoss(w *store.Write, b *store.Bucket, n int64) SinkLoss {
	if n <= 0 || b.Silent {
		return SinkLoss{}
	}
	return SinkLoss{
		Bucket: store.Clip(b.Name, ruleBytes), Policy: store.Clip(b.Policy, ruleBytes), LimitID: b.LimitID,
		Reason: combinedReason(w, b), Warnings: w.Warning, Occurrences: capOccurrences(n, w, MaxOccurrences),
	}
}

// AsDrops are drops of nothing that let the notice of an earlier one say what is missing.
func (m *SinkLoss) AsDrops(namespace string) Drops {
	return Drops{
		Bucket: m.Bucket, Policy: m.Policy, Reason: m.Reason, Warnings: m.Warnings && m.Reason != "", NotInSink: m.Occurrences,
		namespace: namespace, limitID: m.LimitID,
	}
}

// IsEmpty reports whether d has nothing to report.
func (d *Drops) IsEmpty() bool { return d.Total <= 0 && d.NotInSink <= 0 }

// mergeSinkLoss adds what is missing of other drops, and reports whether that is all they have or are to be added to.
func (d *Drops) mergeSinkLoss(o *Drops) (done bool) {
	missing := d.NotInSink + o.NotInSink
	switch {
	case o.Total == 0 && d.IsEmpty():
		*d = *o
	case o.Total == 0:
	case d.Total == 0:
		*d = o.clone()
	default:
		d.NotInSink = missing
		return false
	}
	d.NotInSink = missing
	return true
}

// addSinkLoss lets the newest notice that reports such drops say what is missing, of no more than it reports: that of their reason
// or, where that has had no place, that of all reasons. Without a notice nobody reads of the drops, and so not of this.
func (g *Group) addSinkLoss(now time.Time, d *Drops) {
	for _, of := range []*Drops{d, d.withoutReason()} {
		for i := range slices.Backward(g.Notices) {
			n := &g.Notices[i]
			if !n.sameNotice(of) {
				continue
			}
			if missing := min(n.NotInSink+d.NotInSink, n.Total); missing > n.NotInSink {
				n.NotInSink = missing
				n.markChanged(now.UnixMicro())
			}
			return
		}
	}
}
