package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
)

// Notice is the Event that reports what one bucket refused in one window.
type Notice struct {
	ID       uint64        `cbor:"1,keyasint"`
	Name     string        `cbor:"2,keyasint"`
	About    store.Object  `cbor:"4,keyasint,omitzero"`
	Bucket   string        `cbor:"5,keyasint,omitempty"`
	Policy   string        `cbor:"6,keyasint,omitempty"`
	UID      string        `cbor:"7,keyasint,omitempty"`
	Version  string        `cbor:"8,keyasint,omitempty"`
	Opened   int64         `cbor:"9,keyasint"`
	Window   int64         `cbor:"10,keyasint"`
	First    int64         `cbor:"11,keyasint"`
	Last     int64         `cbor:"12,keyasint"`
	Total    int64         `cbor:"13,keyasint"`
	Written  int64         `cbor:"14,keyasint,omitempty"`
	Warnings bool          `cbor:"15,keyasint,omitempty"`
	Reasons  []store.Tally `cbor:"16,keyasint,omitempty"`
	Sources  []store.Tally `cbor:"17,keyasint,omitempty"`
	Objects  []string      `cbor:"18,keyasint,omitempty"` // newest first
	Schedule `cbor:"19,keyasint,omitempty"`
}

// Drops are refused occurrences that one notice is to report. The zero value is none. Any number of
// drops of one bucket take no more space than the notice.
type Drops struct {
	About          store.Object
	Bucket, Policy string
	Window         time.Duration
	Interval, Max  time.Duration
	First, Last    time.Time
	Total          int64
	Warnings       bool
	Reasons        []store.Tally
	Sources        []store.Tally
	Objects        []string // newest first
}

// Add adds n occurrences of a write that a bucket refused. The texts of w must be clipped.
func (d *Drops) Add(now time.Time, w *store.Write, l *store.Limits, b *store.Bucket, n int64) {
	if n <= 0 {
		return
	}
	d.About, d.Bucket, d.Policy = clippedObject(b.About), clip(b.Name, nameBytes), clip(b.Policy, nameBytes)
	d.Window, d.Interval, d.Max = l.Window, l.WriteInterval, l.MaxWriteInterval
	if d.Total == 0 || now.Before(d.First) {
		d.First = now
	}
	if now.After(d.Last) {
		d.Last = now
	}
	d.Total += n
	d.Warnings = d.Warnings || w.Warning
	d.Reasons = tally(d.Reasons, w.Reason, n)
	d.Sources = tally(d.Sources, w.Source.Component, n)
	d.Objects = latest(d.Objects, clip(w.About.String(), nameBytes))
}

// Dropped are n occurrences of one write that a bucket refused.
func Dropped(now time.Time, w store.Write, l *store.Limits, b *store.Bucket, n int64) Drops {
	w = clipped(now, w)
	var d Drops
	d.Add(now, &w, l, b, n)
	return d
}

// Merge adds other drops of the same bucket.
func (d *Drops) Merge(o *Drops) {
	switch {
	case o.Total == 0:
		return
	case d.Total == 0:
		*d = *o
		d.Reasons, d.Sources, d.Objects = slices.Clone(o.Reasons), slices.Clone(o.Sources), slices.Clone(o.Objects)
		return
	}
	if o.First.Before(d.First) {
		d.First = o.First
	}
	if o.Last.After(d.Last) {
		d.Last = o.Last
	}
	d.Total += o.Total
	d.Warnings = d.Warnings || o.Warnings
	d.Reasons, d.Sources, d.Objects = tallies(d.Reasons, o.Reasons), tallies(d.Sources, o.Sources), objects(d.Objects, o.Objects)
}

// tally counts n of what. The last place is for all that found none of their own.
func tally(all []store.Tally, what string, n int64) []store.Tally {
	for i := range all {
		if all[i].What == what {
			all[i].Count += n
			return all
		}
	}
	if len(all) >= maxTallies-1 && what != "" {
		return tally(all, "", n)
	}
	return append(all, store.Tally{What: what, Count: n})
}

func tallies(all, more []store.Tally) []store.Tally {
	for _, t := range more {
		all = tally(all, t.What, t.Count)
	}
	return all
}

// latest puts an object before others.
func latest(all []string, object string) []string {
	if len(all) > 0 && all[0] == object {
		return all
	}
	all = slices.DeleteFunc(all, func(o string) bool { return o == object })
	return slices.Insert(all[:min(len(all), maxObjects-1)], 0, object)
}

func objects(all, newer []string) []string {
	for _, o := range slices.Backward(newer) {
		all = latest(all, o)
	}
	return all
}

// AddDrops adds drops to the notice whose window holds now, or to a new one. fresh names this step as
// no other one ever is.
func (g *Group) AddDrops(now time.Time, fresh store.Key, d *Drops) {
	g.addDrops(now, fresh, d)
	g.fit(now, fresh)
}

func (g *Group) addDrops(now time.Time, fresh store.Key, d *Drops) {
	if d.Total <= 0 {
		return
	}
	at := now.UnixMicro()
	g.Namespace = cmp.Or(g.Namespace, d.About.NoticeNamespace())
	g.Until = max(g.Until, at+micros(d.Window))
	n := g.notice(at, fresh, d)
	n.Window = micros(d.Window)
	n.set(d.Interval, d.Max)
	n.First, n.Last = min(n.First, d.First.UnixMicro()), max(n.Last, d.Last.UnixMicro())
	n.Total += d.Total
	n.Warnings = n.Warnings || d.Warnings
	n.Reasons, n.Sources, n.Objects = tallies(n.Reasons, d.Reasons), tallies(n.Sources, d.Sources), objects(n.Objects, d.Objects)
	n.change(at)
}

// notice finds the notice that reports drops, or opens one and forgets those that are over and settled.
// Where nobody settles and there are too many, the newest goes on.
func (g *Group) notice(now int64, fresh store.Key, d *Drops) *Notice {
	same := func(n Notice) bool { return n.Bucket == d.Bucket && n.Policy == d.Policy }
	open := func(n Notice) bool { return now-n.Opened < n.Window }
	if i := slices.IndexFunc(g.Notices, func(n Notice) bool { return open(n) && same(n) }); i >= 0 {
		return &g.Notices[i]
	}
	g.Notices = slices.DeleteFunc(g.Notices, func(n Notice) bool { return n.Due == 0 && !open(n) })
	if len(g.Notices) >= maxNotices {
		for i := range slices.Backward(g.Notices) {
			if same(g.Notices[i]) {
				return &g.Notices[i]
			}
		}
		return &g.Notices[maxNotices-1]
	}
	id := g.id()
	g.Notices = append(g.Notices, Notice{
		ID: id, Name: noticeName(fresh, id), About: d.About,
		Bucket: d.Bucket, Policy: d.Policy, Opened: now, First: d.First.UnixMicro(),
	})
	return &g.Notices[len(g.Notices)-1]
}

// noticeName is one that is never used again, and the same for every settler.
func noticeName(fresh store.Key, id uint64) string {
	return "eventquota-" + new(store.Hasher).AddKey(fresh).Add(string(rune(id))).Sum().String()
}

// NoticeKey names the register that has the notice of a quota.
func NoticeKey(b *store.Bucket) store.Key { return new(store.Hasher).Add("notice").AddKey(b.Key).Sum() }
