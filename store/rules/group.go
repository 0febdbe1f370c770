package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/eventquota/eventquota/store"
)

// Group is a register: all that is known of one user's Events from one source about one object, or the notice of one
// quota. Its methods keep nothing of their arguments but strings. It is for one goroutine at a time.
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
	// Seen are the last steps of processes that share the register, but for the one that took the last step of all.
	Seen []Seen `cbor:"12,keyasint,omitempty"`
	// Since is when the first write happened of which anything is kept here, by its writer's clock; 0 before that. What
	// quotas refuse before leaves nothing here.
	Since int64 `cbor:"13,keyasint,omitempty"`
	// From is the namespace of the Events that have made a notice's register, if that is not Namespace.
	From string `cbor:"14,keyasint,omitempty"`
	// Place is until when a store keeps the place of the register among those of the namespace, in seconds; see store/redis.
	Place int64 `cbor:"15,keyasint,omitempty"`
}

// CountedFor is the namespace among whose registers g is: that of the Events that have made it.
func (g *Group) CountedFor() string { return cmp.Or(g.From, g.Namespace) }

// Seen is the last step of a process, and when another process took the next one, in seconds of Unix time.
type Seen struct {
	Step store.Key `cbor:"1,keyasint"`
	At   int64     `cbor:"2,keyasint"`
}

// Record is what is known of one stored Event. Written is the count in the API server's copy; the rest of Total is pending.
type Record struct {
	ID  uint64    `cbor:"1,keyasint"`
	Key store.Key `cbor:"2,keyasint,omitzero"` // Write.Exact or Write.Similar; zero for one found by name only
	// Name is empty while the API server has no such Event and none took its place.
	Name string `cbor:"3,keyasint,omitempty"`
	// UID and Version (the resourceVersion) are those last seen; Version is empty before the Event was read. Without a UID,
	// CreateID tells the Event from others of its name; 0 if its content does.
	UID      string `cbor:"4,keyasint,omitempty"`
	Version  string `cbor:"5,keyasint,omitempty"`
	CreateID uint64 `cbor:"14,keyasint,omitempty"`
	Reason   string `cbor:"6,keyasint,omitempty"`

	Warning   bool `cbor:"7,keyasint,omitempty"`
	Series    bool `cbor:"8,keyasint,omitempty"`
	Aggregate bool `cbor:"9,keyasint,omitempty"`

	store.Occurrences
	Written int64 `cbor:"13,keyasint,omitempty"`

	Seen   int64     `cbor:"15,keyasint,omitempty"` // when the last occurrence came
	Window int64     `cbor:"16,keyasint,omitempty"` // Limits.Window of that
	Last   int64     `cbor:"17,keyasint,omitempty"` // when the newest occurrence happened, by the writer's clock
	Same   store.Key `cbor:"18,keyasint,omitzero"`  // content of the last UPDATE that was admitted

	// Decided is when the last write of a client that was admitted was, which says what Written is.
	Decided int64 `cbor:"24,keyasint,omitempty"`
	// Guessed is how many of Own were taken for reported by a quota, see Name.
	Guessed int64 `cbor:"23,keyasint,omitempty"`

	Text     string        `cbor:"19,keyasint,omitempty"` // newest message, of an aggregate only
	Messages []store.Tally `cbor:"20,keyasint,omitempty"` // newest distinct messages, of an aggregate only

	Schedule `cbor:"21,keyasint,omitempty"`
}

// Name is the highest count that came under a name which was refused. A name is not kept that a quota refused at its
// first occurrence, or whatever its count in a register that has nothing else: that costs the store nothing.
type Name struct {
	Key   uint64 `cbor:"1,keyasint"`
	Count int64  `cbor:"2,keyasint,omitempty"`
	At    int64  `cbor:"3,keyasint"` // in seconds
	// Taken says that the API server has another Event of that name.
	Taken bool `cbor:"4,keyasint,omitempty"`
	// Guessed is how many of Count were taken for reported by a quota, which leaves no trace. A replica that reports
	// these later has refused them itself.
	Guessed int64 `cbor:"5,keyasint,omitempty"`
}

// State is a copy of a part of what a store holds.
type State struct {
	At     time.Time // by the clock of the store
	Groups map[store.Key]*Group
	Levels map[store.Key]Level // of quotas
}

// Bounds of what one group may hold beside its stored Events.
const (
	maxSimilar  = 64  // kinds of similar Events
	maxBuckets  = 16  // spam buckets
	maxReserves = 16  // reasons with a reserve, of a spam bucket
	maxNames    = 256 // names that were refused
	maxNotices  = 8   // notices that are in their window or pending
	maxTallies  = 16  // reasons, and sources, in a notice
	maxObjects  = 10  // objects in a notice
)

// Expired reports whether g can be deleted at now.
func (g *Group) Expired(now time.Time) bool { return now.UnixMicro() > g.Until && g.Due().IsZero() }

// Ends is when g can be deleted; in the year 2255 while something is pending.
func (g *Group) Ends() time.Time {
	if !g.Due().IsZero() {
		return By(time.Time{}, longest)
	}
	return time.UnixMicro(g.Until + 1)
}

// Clone is an independent copy.
func (g *Group) Clone() *Group {
	c := *g
	c.Records = cloned(g.Records, func(r *Record) { r.Messages = slices.Clone(r.Messages) })
	c.Similar = cloned(g.Similar, func(s *Similar) { s.Messages = slices.Clone(s.Messages) })
	c.Buckets = cloned(g.Buckets, func(b *SpamBucket) { b.Reserves = slices.Clone(b.Reserves) })
	c.Names, c.Seen = slices.Clone(g.Names), slices.Clone(g.Seen)
	c.Notices = cloned(g.Notices, func(n *Notice) {
		n.Reasons, n.Sources, n.Objects = slices.Clone(n.Reasons), slices.Clone(n.Sources), slices.Clone(n.Objects)
	})
	return &c
}

// cloned is a copy of which deepen copies what an element points to.
func cloned[T any](all []T, deepen func(*T)) []T {
	all = slices.Clone(all)
	for i := range all {
		deepen(&all[i])
	}
	return all
}

// byKey finds the stored Event that Events of a key go into.
func (g *Group) byKey(key store.Key) *Record {
	return g.find(func(r *Record) bool { return r.Key == key && !key.IsZero() })
}

// byName finds a stored Event by its name.
func (g *Group) byName(name string) *Record {
	return g.find(func(r *Record) bool { return r.Name == name && name != "" })
}

func (r *Record) identity() store.Identity { return store.Identity{UID: r.UID, CreateID: r.CreateID} }

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

// add makes a record without a name. Pointers to other records are void after it.
func (g *Group) add(key store.Key) *Record {
	g.Records = append(g.Records, Record{ID: g.id(), Key: key})
	return &g.Records[len(g.Records)-1]
}

// reported is how many of a write's occurrences were reported before under its name, and how many of these that is a
// guess of.
//
// A name that is not known may be one that a quota refused: at its first occurrence only if the register had been there
// by then, and each time if it had not. So a recorder that counts by one is counted exactly; of one that skips counts
// while nothing is known of its object, what it skips is lost. Where the first occurrence was longer ago than names are
// kept, all but the newest were reported, if refused writes count on under that name; an Event that is stored goes on as
// its recorder counts.
func (g *Group) reported(now int64, w *store.Write, l *store.Limits, stored bool) (n, guessed int64) {
	if r := g.byName(w.Name); r != nil && !(r.Partial && r.Own == 0) { // else its own count is not known
		return min(r.Own, w.Count), r.Guessed
	}
	if n := g.name(now, nameKey(w.Name), l); n != nil {
		return min(n.Count, w.Count), n.Guessed
	}
	recent := !w.First.IsZero() && now-w.First.UnixMicro() <= micros(l.RepeatWindow)
	switch {
	case w.Count == 1:
		return 0, 0
	case recent && len(l.Quotas) == 0:
		return 0, 0
	case recent && g.Since != 0 && w.First.UnixMicro() >= g.Since: // both by the writer's clock
		return 1, 1
	case recent:
		return w.Count - 1, w.Count - 1
	case stored:
		return 0, 0
	}
	return w.Count - 1, 0
}

// nameKey is a short key of a name or reason, by all of it.
func nameKey(name string) uint64 {
	var text [eventNameBytes]byte // nearly all fit, which costs no allocation
	sum := sha256.Sum256(append(text[:0], name...))
	return binary.BigEndian.Uint64(sum[:8])
}

// short is half a key: enough to distinguish what one group holds.
func short(key store.Key) uint64 { return binary.BigEndian.Uint64(key[:8]) }

// name finds what is known of a name that was refused, and still counts.
func (g *Group) name(now int64, key uint64, l *store.Limits) *Name {
	for i := range g.Names {
		if n := &g.Names[i]; n.Key == key && now/second-n.At <= micros(l.RepeatWindow)/second {
			return n
		}
	}
	return nil
}

const second = int64(time.Second / time.Microsecond)

// forget takes a name out of the refused ones and returns what was known of it.
func (g *Group) forget(key uint64) Name {
	i := slices.IndexFunc(g.Names, func(n Name) bool { return n.Key == key })
	if i < 0 {
		return Name{}
	}
	n := g.Names[i]
	g.Names = slices.Delete(g.Names, i, i+1)
	return n
}

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
	for i := range g.Notices {
		o := &g.Notices[i]
		n += noticeBytes + len(o.Name) + objectBytes(&o.About) + len(o.Bucket) + len(o.Policy) + len(o.UID) + len(o.Version) +
			tallies(o.Reasons) + tallies(o.Sources)
		for _, object := range o.Objects {
			n += textBytes + len(object)
		}
	}
	return int64(n)
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
	for i := range g.Notices {
		if n := &g.Notices[i]; len(n.Objects)+len(n.Reasons)+len(n.Sources) > 2 {
			n.Objects, n.Reasons, n.Sources = nil, together(n.Reasons), together(n.Sources)
			return true
		}
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

// together counts all under the empty name.
func together(all []store.Tally) []store.Tally {
	n := int64(0)
	for _, t := range all {
		n += t.Count
	}
	return []store.Tally{{Count: n}}
}

// format is the first byte of an encoded Group. A value of another format is a newer replica's and
// must not be overwritten.
const format = 1

// ErrFormat says that a value was not written by this format.
var ErrFormat = errors.New("register of a format that this version does not know")

// MaxBytes is the largest Size of a Group, which bounds the work of a step.
const MaxBytes = 64 << 10

//nolint:gochecknoglobals // never changes, and takes long to make
var decoder, _ = cbor.DecOptions{
	MaxArrayElements: 1024, MaxMapPairs: 64, MaxNestedLevels: 8,
	IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	UTF8: cbor.UTF8DecodeInvalid, // texts come from clients and must not make a register unreadable
}.DecMode() // it fails for other options only

// Marshal encodes g.
func (g *Group) Marshal() ([]byte, error) {
	encoded, err := cbor.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode register: %w", err)
	}
	return append([]byte{format}, encoded...), nil
}

// Unmarshal decodes what Marshal has encoded. The error is ErrFormat for what a newer version may have written.
func Unmarshal(b []byte) (*Group, error) {
	switch {
	case len(b) == 0 || b[0] != format:
		return nil, ErrFormat
	case len(b) > 2*MaxBytes:
		return nil, fmt.Errorf("register of %d bytes: must have at most %d", len(b), MaxBytes)
	}
	var g Group
	if err := decoder.Unmarshal(b[1:], &g); err != nil {
		return nil, fmt.Errorf("decode register: %w", err)
	}
	return &g, nil
}
