package engine

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// SinkLoss counts occurrences that a bucket has refused and that are not in the sink. The notice that reports them says so.
type SinkLoss struct {
	// Bucket, Policy and LimitID are those of the bucket.
	Bucket, Policy, LimitID string
	// Reason and Warnings are those of the Event, if the bucket reports each reason separately.
	Reason   string
	Warnings bool
	// Occurrences is their number, as NewDrops counts it.
	Occurrences int64
}

// NewSinkLoss returns the loss of n occurrences of a write that a bucket refused. It is empty if the bucket has no notices.
func NewSinkLoss(w *store.Write, b *store.Bucket, n int64) SinkLoss {
	if n <= 0 || b.Silent {
		return SinkLoss{}
	}
	return SinkLoss{
		Bucket: store.Clip(b.Name, ruleBytes), Policy: store.Clip(b.Policy, ruleBytes), LimitID: b.LimitID,
		Reason: combinedReason(w, b), Warnings: w.Warning, Occurrences: capOccurrences(n, w, MaxOccurrences),
	}
}

// AsDrops returns drops without occurrences, which add the loss to the notice of earlier drops.
func (m *SinkLoss) AsDrops(namespace string) Drops {
	return Drops{
		Bucket: m.Bucket, Policy: m.Policy, Reason: m.Reason, Warnings: m.Warnings && m.Reason != "", NotInSink: m.Occurrences,
		namespace: namespace, limitID: m.LimitID,
	}
}

// IsEmpty reports whether d has nothing to report.
func (d *Drops) IsEmpty() bool { return d.Total <= 0 && d.NotInSink <= 0 }

// mergeSinkLoss adds the loss of other drops. It reports whether d or o has nothing else.
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

// addSinkLoss adds the loss to the notices that report such drops, the newest first, to each up to the number that it reports. Those
// are the notices of their reason and, if there was no slot for one, those of all reasons. The rest is not reported.
func (g *Group) addSinkLoss(now time.Time, d *Drops) {
	rest := d.NotInSink
	for _, of := range []*Drops{d, d.withoutReason()} {
		for i := range slices.Backward(g.Notices) {
			n := &g.Notices[i]
			if more := min(rest, n.Total-n.NotInSink); more > 0 && n.sameNotice(of) {
				n.NotInSink += more
				rest -= more
				n.markChanged(now.UnixMicro())
			}
		}
	}
}
