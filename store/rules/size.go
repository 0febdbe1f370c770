package rules

import (
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// sizes are what the parts of a Group take beside their texts, in bytes.
type sizes struct{ group, record, tally, similar, bucket, reserve, name, notice, text, key int }

// inMemory are sizes in memory, with what the runtime adds; asEncoded are the most that they take in a
// register.
func inMemory() sizes {
	return sizes{group: 480, record: 488, tally: 32, similar: 88, bucket: 64, reserve: 24, name: 36, notice: 480, text: 16, key: 8}
}

func asEncoded() sizes {
	return sizes{group: 160, record: 235, tally: 15, similar: 25, bucket: 37, reserve: 31, name: 33, notice: 310, text: 3, key: 9}
}

// Size estimates the memory of g, in bytes.
func (g *Group) Size() int64 { return int64(g.sum(inMemory())) }

func (g *Group) sum(s sizes) int {
	n := s.group + len(g.Namespace) + objectBytes(&g.About) + len(g.Source.Component) + len(g.Source.Host) + len(g.Names)*s.name
	for i := range g.Similar {
		n += s.similar + len(g.Similar[i].Messages)*s.key
	}
	for i := range g.Buckets {
		n += s.bucket + len(g.Buckets[i].Reserves)*s.reserve
	}
	for i := range g.Records {
		r := &g.Records[i]
		n += s.record + len(r.Name) + len(r.UID) + len(r.Version) + len(r.Reason) + len(r.Text) + s.tallies(r.Messages)
	}
	for i := range g.Notices {
		o := &g.Notices[i]
		n += s.notice + len(o.Name) + objectBytes(&o.About) + len(o.Bucket) + len(o.Policy) + len(o.UID) + len(o.Version) +
			s.tallies(o.Reasons) + s.tallies(o.Sources)
		for _, object := range o.Objects {
			n += s.text + len(object)
		}
	}
	return n
}

func objectBytes(o *store.Object) int {
	return len(o.APIVersion) + len(o.Kind) + len(o.Namespace) + len(o.Name) + len(o.UID)
}

func (s *sizes) tallies(all []store.Tally) int {
	n := len(all) * s.tally
	for _, t := range all {
		n += len(t.What)
	}
	return n
}

// fit keeps g within MaxBytes once it is encoded.
func (g *Group) fit(now time.Time, fresh store.Key) {
	for more := true; more && g.sum(asEncoded()) > MaxBytes; {
		more = g.shed(now, fresh)
	}
}

// shed makes g smaller by what is missed least: kept messages, settled Events, kinds of similar Events,
// each of what was used longest ago; then Events, whose counts the notice reports from then on; then
// what notices say beside their count, and refused names. It tells whether there was anything.
func (g *Group) shed(now time.Time, fresh store.Key) bool {
	if i := oldest(g.Records, func(r *Record) (int64, bool) { return r.Seen, len(r.Messages) > 0 }); i >= 0 {
		g.Records[i].Messages = nil
		return true
	}
	if g.forgetOldest() {
		return true
	}
	if i := oldest(g.Similar, func(s *Similar) (int64, bool) { return s.Last, true }); i >= 0 {
		g.Similar = slices.Delete(g.Similar, i, i+1)
		return true
	}
	if i := oldest(g.Records, func(r *Record) (int64, bool) { return r.Seen, true }); i >= 0 {
		g.giveUp(now, fresh, g.Records[i].ID)
		return true
	}
	for i := range g.Notices {
		if n := &g.Notices[i]; len(n.Objects)+len(n.Reasons)+len(n.Sources) > 2 {
			n.Objects, n.Reasons, n.Sources = nil, together(n.Reasons), together(n.Sources)
			return true
		}
	}
	g.Names = g.Names[(len(g.Names)+1)/2:]
	return len(g.Names) > 0
}

// oldest is the place of the one with the least age of those that count; -1 for none.
func oldest[T any](all []T, age func(*T) (at int64, counts bool)) int {
	found, first := -1, int64(0)
	for i := range all {
		if at, counts := age(&all[i]); counts && (found < 0 || at < first) {
			found, first = i, at
		}
	}
	return found
}

// together counts all under the empty name.
func together(all []store.Tally) []store.Tally {
	n := int64(0)
	for _, t := range all {
		n += t.Count
	}
	return []store.Tally{{Count: n}}
}
