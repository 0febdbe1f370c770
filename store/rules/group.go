package rules

import (
	"slices"

	"github.com/eventquota/eventquota/store"
)

// Group is a register: all that is known of one user's Events from one source about one object, or
// the notice of one quota. Its methods change it in place and keep nothing of their arguments but
// strings; a Clone is independent. It is for one goroutine at a time.
type Group struct {
	Namespace string       `cbor:"1,keyasint,omitempty"`
	Object    store.Key    `cbor:"2,keyasint,omitzero"` // Write.Object
	NextID    uint64       `cbor:"3,keyasint,omitempty"`
	Records   []Record     `cbor:"4,keyasint,omitempty"`
	Similar   []Similar    `cbor:"5,keyasint,omitempty"`
	Buckets   []SpamBucket `cbor:"6,keyasint,omitempty"`
	Names     []Name       `cbor:"7,keyasint,omitempty"` // oldest first
	Notices   []Notice     `cbor:"8,keyasint,omitempty"`
	// Until is when nothing here matters any more, unless something is pending.
	Until int64 `cbor:"9,keyasint,omitempty"`
	// About and Source are what a notice needs to know of a group of which something was refused.
	About  store.Object `cbor:"10,keyasint,omitzero"`
	Source store.Source `cbor:"11,keyasint,omitzero"`
}

// Record is what is known of one stored Event.
//
// Written is the count in the API server's copy. What Total is more is pending.
type Record struct {
	ID  uint64    `cbor:"1,keyasint"`
	Key store.Key `cbor:"2,keyasint,omitzero"` // Write.Exact or Write.Similar; zero for one found by name only
	// Name is empty while the API server has no such Event and none took its place. Was is the
	// name before that.
	Name string `cbor:"3,keyasint,omitempty"`
	// UID and Version (the resourceVersion) are those last seen; empty before the Event was read.
	UID     string `cbor:"4,keyasint,omitempty"`
	Version string `cbor:"5,keyasint,omitempty"`
	Reason  string `cbor:"6,keyasint,omitempty"`

	Warning   bool `cbor:"7,keyasint,omitempty"`
	Series    bool `cbor:"8,keyasint,omitempty"`
	Aggregate bool `cbor:"9,keyasint,omitempty"`

	store.Occurrences
	Written int64 `cbor:"13,keyasint,omitempty"`

	Admitted int64     `cbor:"14,keyasint,omitempty"` // when its CREATE was; 0 once the API server has said that it exists
	Seen     int64     `cbor:"15,keyasint,omitempty"` // when the last occurrence came
	Window   int64     `cbor:"16,keyasint,omitempty"` // Limits.Window of that
	Last     int64     `cbor:"17,keyasint,omitempty"` // when the newest occurrence happened, by the writer's clock
	Same     store.Key `cbor:"18,keyasint,omitzero"`  // content of the last UPDATE that was admitted

	Text     string        `cbor:"19,keyasint,omitempty"` // newest message, of an aggregate only
	Messages []store.Tally `cbor:"20,keyasint,omitempty"` // newest distinct messages, of an aggregate only

	Schedule `cbor:"21,keyasint,omitempty"`
}

// Name is the highest count that came under a name which was refused. A name whose first occurrence
// a quota refused is not kept: that costs the store nothing.
type Name struct {
	Key   uint64 `cbor:"1,keyasint"`
	Count int64  `cbor:"2,keyasint,omitempty"`
	At    int64  `cbor:"3,keyasint"` // in seconds
	// Taken says that the API server has another Event of that name.
	Taken bool `cbor:"4,keyasint,omitempty"`
}

// Bounds of what one group may hold. They bound the work of one step.
const (
	maxRecords  = 128 // stored Events
	maxSimilar  = 64  // kinds of similar Events
	maxBuckets  = 16  // spam buckets
	maxReserves = 16  // reasons with a reserve, of a spam bucket
	maxNames    = 256 // names that were refused
	maxNotices  = 8   // notices that are in their window or pending
	maxTallies  = 16  // reasons, and sources, in a notice
	maxObjects  = 10  // objects in a notice
)

// Clone is a copy that shares nothing with g that either of them changes.
func (g *Group) Clone() *Group {
	c := *g
	c.Records = slices.Clone(g.Records)
	for i := range c.Records {
		c.Records[i].Messages = slices.Clone(c.Records[i].Messages)
	}
	c.Similar = slices.Clone(g.Similar)
	for i := range c.Similar {
		c.Similar[i].Messages = slices.Clone(c.Similar[i].Messages)
	}
	c.Buckets = slices.Clone(g.Buckets)
	for i := range c.Buckets {
		c.Buckets[i].Reserves = slices.Clone(c.Buckets[i].Reserves)
	}
	c.Names = slices.Clone(g.Names)
	c.Notices = slices.Clone(g.Notices)
	for i := range c.Notices {
		n := &c.Notices[i]
		n.Reasons, n.Sources, n.Objects = slices.Clone(n.Reasons), slices.Clone(n.Sources), slices.Clone(n.Objects)
	}
	return &c
}

// byKey finds the stored Event that Events of a key go into.
func (g *Group) byKey(key store.Key) *Record {
	return g.find(func(r *Record) bool { return r.Key == key && !key.IsZero() })
}

// byName finds a stored Event by its name.
func (g *Group) byName(name string) *Record {
	return g.find(func(r *Record) bool { return r.Name == name && name != "" })
}

func (g *Group) byID(id uint64) *Record {
	return g.find(func(r *Record) bool { return r.ID == id })
}

func (g *Group) find(match func(*Record) bool) *Record {
	for i := range g.Records {
		if match(&g.Records[i]) {
			return &g.Records[i]
		}
	}
	return nil
}

func (g *Group) id() uint64 {
	g.NextID++
	return g.NextID
}

// add makes a record without a name. It returns nil when the group is at its bound and all its
// records are pending. Pointers to other records are void after it.
func (g *Group) add(key store.Key) *Record {
	if len(g.Records) >= maxRecords && !g.forgetOldest() {
		return nil
	}
	g.Records = append(g.Records, Record{ID: g.id(), Key: key})
	return &g.Records[len(g.Records)-1]
}

// forgetOldest forgets the record that was used longest ago and is not pending.
func (g *Group) forgetOldest() bool {
	i := oldest(g.Records, func(r *Record) (int64, bool) { return r.Seen, r.Due == 0 })
	if i < 0 {
		return false
	}
	g.Records = slices.Delete(g.Records, i, i+1)
	return true
}

func (g *Group) remove(id uint64) {
	g.Records = slices.DeleteFunc(g.Records, func(r Record) bool { return r.ID == id })
}
