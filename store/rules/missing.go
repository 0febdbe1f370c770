package rules

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Missing are occurrences that a bucket has refused and that are not in the sink. A notice that reports them says so.
type Missing struct {
	// Bucket, Policy and Of are those of the bucket.
	Bucket, Policy, Of string
	// Reason and Warnings are those of the Event, where the bucket reports each reason apart.
	Reason   string
	Warnings bool
	// Occurrences are how many, as Dropped counts them.
	Occurrences int64
}

// MissingOf are n occurrences of a write that a bucket refused; none where no notice reports them.
func MissingOf(w *store.Write, b *store.Bucket, n int64) Missing {
	if n <= 0 || b.Silent {
		return Missing{}
	}
	return Missing{
		Bucket: store.Clip(b.Name, ruleBytes), Policy: store.Clip(b.Policy, ruleBytes), Of: b.Of,
		Reason: combinedReason(w, b), Warnings: w.Warning, Occurrences: bounded(n, w, MaxOccurrences),
	}
}

// Drops are drops of nothing that let the notice of an earlier one say what is missing.
func (m *Missing) Drops(namespace string) Drops {
	return Drops{
		Bucket: m.Bucket, Policy: m.Policy, Reason: m.Reason, Warnings: m.Warnings && m.Reason != "", Missing: m.Occurrences,
		from: namespace, of: m.Of,
	}
}

// None reports whether d has nothing to report.
func (d *Drops) None() bool { return d.Total <= 0 && d.Missing <= 0 }

// joinMissing adds what is missing of other drops, and reports whether that is all they have or are to be added to.
func (d *Drops) joinMissing(o *Drops) (done bool) {
	missing := d.Missing + o.Missing
	switch {
	case o.Total == 0 && d.None():
		*d = *o
	case o.Total == 0:
	case d.Total == 0:
		*d = o.clone()
	default:
		d.Missing = missing
		return false
	}
	d.Missing = missing
	return true
}

// addMissing lets the newest notice that reports such drops say what is missing, of no more than it reports: that of their reason
// or, where that has had no place, that of all reasons. Without a notice nobody reads of the drops, and so not of this.
func (g *Group) addMissing(now time.Time, d *Drops) {
	for _, of := range []*Drops{d, d.rest()} {
		for i := range slices.Backward(g.Notices) {
			n := &g.Notices[i]
			if !n.together(of) {
				continue
			}
			if missing := min(n.Missing+d.Missing, n.Total); missing > n.Missing {
				n.Missing = missing
				n.change(now.UnixMicro())
			}
			return
		}
	}
}
