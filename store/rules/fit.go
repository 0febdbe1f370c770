package rules

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Bytes of the parts of a Group without their texts: in memory with the runtime's overhead, which is more than encoded.
const (
	groupBytes, recordBytes, noticeBytes = 480, 488, 480
	similarBytes, bucketBytes            = 88, 64
	reserveBytes, nameKept               = 32, 48
	tallyBytes, textBytes, keyBytes      = 32, 16, 9
)

// Size estimates the memory of g, in bytes. No encoded g is larger.
func (g *Group) Size() int64 {
	n := groupBytes + len(g.Namespace) + len(g.From) + objectBytes(&g.About) + len(g.Source.Component) + len(g.Source.Host)
	n += (len(g.Names) + len(g.Seen)) * nameKept
	for i := range g.Similar {
		n += similarBytes + len(g.Similar[i].Messages)*keyBytes
	}
	for i := range g.Buckets {
		n += bucketBytes + len(g.Buckets[i].Reserves)*reserveBytes
	}
	for i := range g.Records {
		r := &g.Records[i]
		n += recordBytes + len(r.Name) + len(r.UID) + len(r.Version) + len(r.Reason) + len(r.Text) + tallies(r.Messages)
	}
	return int64(n + g.Notices.size())
}

func objectBytes(o *store.Object) int {
	return len(o.APIVersion) + len(o.Kind) + len(o.Namespace) + len(o.Name) + len(o.UID)
}

func tallies(all []store.Tally) int {
	n := len(all) * tallyBytes
	for _, t := range all {
		n += len(t.What)
	}
	return n
}

// fit keeps g within MaxBytes.
func (g *Group) fit(now time.Time, fresh store.Key) {
	for more := true; more && g.Size() > MaxBytes; {
		more = g.shed(now, fresh)
	}
}

// shed makes g smaller by what is missed least: kept messages, settled Events, kinds of similar Events,
// each of what was used longest ago; then Events, whose counts the notice reports from then on; then
// what notices say beside their count, and refused names. It reports whether there was anything.
func (g *Group) shed(now time.Time, fresh store.Key) bool {
	if i := oldest(g.Records, func(r *Record) (int64, bool) { return r.Seen, len(r.Messages) > 0 }); i >= 0 {
		g.Records[i].Messages = nil
		return true
	}
	if forgetOldest(&g.Records, func(r *Record) (int64, bool) { return r.Seen, r.Due == 0 }) ||
		forgetOldest(&g.Similar, func(s *Similar) (int64, bool) { return s.Last, true }) {
		return true
	}
	if i := oldest(g.Records, func(r *Record) (int64, bool) { return r.Seen, true }); i >= 0 {
		g.giveUp(now, fresh, g.Records[i].ID)
		return true
	}
	if g.Notices.shorten() {
		return true
	}
	g.Names = g.Names[(len(g.Names)+1)/2:]
	return len(g.Names) > 0
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
