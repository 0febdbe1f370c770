package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// msgp generates the methods that encode the state, see Append.
//
//msgp:clearomitted
//msgp:limit arrays:1024 maps:64
//msgp:replace store.Key with:[16]byte

// Group is the content of a register: the state of one user's Events from one source about one object, with the notices about
// their drops. The register of a quota has only Notices. Methods keep nothing of their arguments but strings. A Group is
// not safe for concurrent use.
type Group struct {
	Namespace    string          `msg:"1,omitempty"`
	Object       store.Key       `msg:"2,omitzero"` // store.Write.ObjectKey
	NextID       uint64          `msg:"3,omitempty"`
	Events       []TrackedEvent  `msg:"4,omitempty"`
	Similar      []SimilarEvents `msg:"5,omitempty"`
	Buckets      []SpamBucket    `msg:"6,omitempty"`
	RefusedNames []RefusedName   `msg:"7,omitempty"` // oldest first
	Notices      Notices         `msg:"8,omitempty"`
	// KeepUntil is when the group expires, unless a write is pending.
	KeepUntil int64 `msg:"9,omitempty"`
	// InvolvedObject and Source are for notices about a group that has refused writes.
	InvolvedObject store.Object `msg:"10"`
	Source         store.Source `msg:"11"`
	// LastSteps has the last step of each process that shares the register, except the process that made the latest step.
	LastSteps []LastStep `msg:"12,omitempty"`
	// FirstWrite is the time of the first write that left any state here, by its writer's clock; 0 before that. Earlier
	// refusals by quotas leave no state.
	FirstWrite int64 `msg:"13,omitempty"`
	// OriginNamespace is the namespace of the Events that caused a notice's register, if it is not Namespace.
	OriginNamespace string `msg:"14,omitempty"`
	// CountedUntil is until when a store counts the register for its namespace, in seconds; see store/redis.
	CountedUntil int64 `msg:"15,omitempty"`

	// correctedAt is the time of the last step of this process. If the next step is not earlier, no time is ahead.
	correctedAt int64 `msg:"-"`
}

// LastStep is the last step of a process, and when another process took the next one, in seconds of Unix time.
type LastStep struct {
	Step store.Key `msg:"1"`
	At   int64     `msg:"2"`
}

// TrackedEvent is the state of one stored Event. Written is the count in the API server; the rest of Total is pending.
type TrackedEvent struct {
	ID  uint64    `msg:"1"`
	Key store.Key `msg:"2,omitzero"` // store.Write.ExactKey or SimilarKey; zero if it is found by name only
	// Name is empty if the API server has no such Event and no other has taken its place.
	Name string `msg:"3,omitempty"`
	// UID and Version (the resourceVersion) are the latest known ones; Version is empty before the Event was read. Without a UID,
	// CreateID tells the Event from others of its name; 0 if its content does.
	UID      string `msg:"4,omitempty"`
	Version  string `msg:"5,omitempty"`
	CreateID uint64 `msg:"14,omitempty"`
	Reason   string `msg:"6,omitempty"`

	Warning   bool `msg:"7,omitempty"`
	Series    bool `msg:"8,omitempty"`
	Aggregate bool `msg:"9,omitempty"`

	store.Occurrences `msg:"10"`
	Written           int64 `msg:"13,omitempty"`

	ReceivedAt int64     `msg:"15,omitempty"` // when the webhook received the last occurrence
	Window     int64     `msg:"16,omitempty"` // store.Limits.Window of the last occurrence
	LastSeen   int64     `msg:"17,omitempty"` // time of the newest occurrence, by the writer's clock
	ContentKey store.Key `msg:"18,omitzero"`  // content of the last admitted UPDATE

	// AdmittedAt is the time of the last admitted write of a client, which set Written.
	AdmittedAt int64 `msg:"24,omitempty"`
	// Retries is how often the UPDATE of ContentKey was admitted again without a token.
	Retries int `msg:"25,omitempty"`
	// AssumedReported is how many of Own are assumed to be reported by a quota, see RefusedName.
	AssumedReported int64 `msg:"23,omitempty"`
	// Unexplained is how many of Own were found on the Event, above its CREATE, when nothing was known of it, and UnexplainedAt the time
	// of that. If an earlier CREATE is reported later, it may say that a quota reports them.
	Unexplained   int64 `msg:"27,omitempty"`
	UnexplainedAt int64 `msg:"28,omitempty"`
	// Stamps has the highest of the counts that UPDATEs have reported under the Event's own name, at most maxStamps.
	Stamps []CountStamp `msg:"26,omitempty"`

	Text     string        `msg:"19,omitempty"` // newest message, only of a combined Event
	Messages []store.Tally `msg:"20,omitempty"` // newest distinct messages, only of a combined Event

	Schedule `msg:"21,omitempty"`
}

// CountStamp is a count that came under the name of an Event, and the newest store.Write.Stamp that came with it.
//
//msgp:tuple CountStamp
type CountStamp struct{ Count, Stamp int64 }

// RefusedName has the highest count under a refused name. Names that a quota refused at their first occurrence are not kept,
// nor names that would be alone in the register: these refusals cost the store nothing.
type RefusedName struct {
	Key   uint64 `msg:"1"`
	Count uint32 `msg:"2,omitempty"`
	// AssumedReported is how many of Count are assumed to be reported by a quota, which leaves no trace. If a replica reports
	// these later, it has refused them itself.
	AssumedReported uint32 `msg:"5,omitempty"`
	At              uint32 `msg:"3"` // in seconds of Unix time
	// NameTaken reports that the API server has another Event of that name.
	NameTaken bool `msg:"4,omitempty"`
	// Stamp is the newest store.Write.Stamp that came with Count.
	Stamp int64 `msg:"6,omitempty"`
}

// SimilarEvents has the distinct messages of Events that differ only in their message, as
// client-go's EventAggregator has.
type SimilarEvents struct {
	Key      uint64   `msg:"1"`
	Last     int64    `msg:"2"`
	Messages []uint64 `msg:"3,omitempty"` // at most store.Limits.SimilarThreshold-1
}

// SpamBucket is a token bucket of a source and object, with the reserves that let a rare reason
// pass when it is empty.
type SpamBucket struct {
	Key         uint64 `msg:"1"`
	BucketState `msg:"2,omitempty"`
	Reserves    []Reserve `msg:"3,omitempty"`
}

// Reserve counts the Events of one reason that were admitted in a window.
type Reserve struct {
	Reason uint64 `msg:"1"`
	Used   int    `msg:"2"`
	Until  int64  `msg:"3"`
}

// BucketState is how much of a token bucket is used, as the time in which that refills, and the time At of this state,
// both in microseconds. The zero value is a full bucket. The refill since At is subtracted when the state is read.
type BucketState struct {
	Used int64 `msg:"1,omitempty"`
	At   int64 `msg:"2,omitempty"`
}

// Schedule decides when a stored Event or a notice is written next. The wait between two writes doubles
// with each, from Interval up to Max, and halves for each Max that passes without one. So in a time
// T there are at most 2 + log2(Max/Interval) + T/Max writes, the CREATE included.
type Schedule struct {
	Due          int64  `msg:"1,omitempty"` // 0 if nothing is pending
	WrittenAt    int64  `msg:"2,omitempty"` // time of the last write; 0 for none
	Doublings    int    `msg:"3,omitempty"`
	Interval     int64  `msg:"4,omitempty"`
	MaxInterval  int64  `msg:"5,omitempty"`
	Changes      uint64 `msg:"6,omitempty"` // counts changes and writes
	FailingSince int64  `msg:"7,omitempty"` // time of the first of the failures in a row; 0 for none
}

// Notices are the notices of one register, oldest first: those of the spam filters of a group's Events, or those of one quota.
// A group that has only notices is the register of a quota.
type Notices []Notice

// Notice is the state of an Event that reports the drops of one bucket in one window.
type Notice struct {
	ID       uint64 `msg:"1"`
	Name     string `msg:"2"`
	UID      string `msg:"7,omitempty"`
	Version  string `msg:"8,omitempty"`
	OpenedAt int64  `msg:"9"`
	Written  int64  `msg:"14,omitempty"`
	// OriginHash is a hash of the namespace of the Event that opened the notice.
	OriginHash uint64 `msg:"26,omitempty"`
	Drops      `msg:"3"`
	Schedule   `msg:"19,omitempty"`
}

// Drops are refused occurrences for one notice. The zero value has none. Any number of
// drops of one bucket take no more space than the notice.
type Drops struct {
	InvolvedObject store.Object `msg:"4"`
	Bucket         string       `msg:"5,omitempty"`
	Policy         string       `msg:"6,omitempty"`
	Window         int64        `msg:"10"`
	First          int64        `msg:"11"`
	Last           int64        `msg:"12"`
	Total          int64        `msg:"13"`
	Warnings       bool         `msg:"15,omitempty"`
	Reasons        []TopItem    `msg:"16,omitempty"`
	Sources        []TopItem    `msg:"17,omitempty"`
	Objects        []TopItem    `msg:"18,omitempty"` // newest first
	// Reason is set for a combined notice: all drops have this reason, and are either all Warnings or all Normal.
	Reason string `msg:"20,omitempty"`
	// Workloads are counted like Reasons, if they are known, and Workload is one of them.
	Workloads []TopItem    `msg:"21,omitempty"`
	Workload  store.Object `msg:"22,omitzero"`
	// DistinctObjects counts the objects. The next fields count their workloads, and report whether any object is no Pod.
	DistinctObjects   Distinct `msg:"23,omitempty"`
	DistinctWorkloads Distinct `msg:"24,omitempty"`
	OtherKinds        bool     `msg:"25,omitempty"`
	// NotInSink is how many of Total are not in the sink.
	NotInSink int64 `msg:"26,omitempty"`

	writeInterval, maxWriteInterval time.Duration // for the Schedule of the notice
	// namespace is the namespace of the Events, and limitID is store.Bucket.LimitID.
	namespace, limitID string
}

// TopItem is an entry of a list in a notice.
//
// The lists are bounded, and namespaces share them fairly, as in busiest.Counter. In a full list, a new entry replaces the
// lightest entry of the namespaces that have more entries than its own. If there are none, it replaces the lightest of its own
// namespace, or else the lightest of all. It takes over the weight (Space-Saving; Metwally, Agrawal, El Abbadi 2005). So if a namespace competes with itself for k entries, anything with more than a k-th of its weight is always listed.
// A namespace that invents names displaces its own entries, and no claimed count takes all of them.
type TopItem struct {
	Name string `msg:"1,omitempty"`
	// Count is the number of occurrences since the entry was listed.
	Count  int64 `msg:"2,omitempty"`
	Weight int64 `msg:"3,omitempty"`
	// NamespaceHash is a hash of the namespace of the Events.
	NamespaceHash uint64 `msg:"4,omitempty"`
}

// Distinct counts distinct things in at most 512 bytes. Up to 63 it has their sorted hashes, and is exact. Above, it is a HyperLogLog
// (Flajolet, Fusy, Gandouet, Meunier 2007) of 512 registers, and its estimate, by Ertl (2017), has a standard error of 4.6 %.
// The order, repetition and place of counting make no difference: merging the counts of two replicas gives the count of one.
type Distinct []byte

// formatVersion is the first byte of an encoded Group. A value of another format comes from a newer replica and
// must not be overwritten.
const formatVersion = 1

// ErrUnknownFormat reports that a value has another format.
var ErrUnknownFormat = errors.New("register has a format that this version does not know")

// MaxGroupBytes is the largest Size of a Group, which bounds the work of a step.
const MaxGroupBytes = 64 << 10

// Append encodes g, and appends that to b.
func (g *Group) Append(b []byte) []byte {
	b, err := g.MarshalMsg(append(b, formatVersion))
	if err != nil {
		panic(err) // only for types that a Group does not have
	}
	return b
}

// Unmarshal decodes a group that Append has encoded. The error is ErrUnknownFormat if a newer version may have written b.
func Unmarshal(b []byte) (*Group, error) {
	switch {
	case len(b) == 0 || b[0] != formatVersion:
		return nil, ErrUnknownFormat
	case len(b) > 2*MaxGroupBytes:
		return nil, fmt.Errorf("register of %d bytes: must have at most %d", len(b), MaxGroupBytes)
	}
	var g Group
	rest, err := g.UnmarshalMsg(b[1:])
	if err != nil {
		return nil, fmt.Errorf("decode register: %w", err)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("decode register: %d bytes after its end", len(rest))
	}
	return &g, nil
}
