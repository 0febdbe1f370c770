package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
)

// msgp makes the methods that encode what is kept: see Append.
//
//msgp:clearomitted
//msgp:limit arrays:1024 maps:64
//msgp:replace store.Key with:[16]byte

// Group is a register: all that is known of one user's Events from one source about one object, with the notices of what was
// refused of them. The register of a quota has its Notices only. Its methods keep nothing of their arguments but strings. It
// is for one goroutine at a time.
type Group struct {
	Namespace    string          `msg:"1,omitempty"`
	Object       store.Key       `msg:"2,omitzero"` // Write.Object
	NextID       uint64          `msg:"3,omitempty"`
	Events       []TrackedEvent  `msg:"4,omitempty"`
	Similar      []SimilarEvents `msg:"5,omitempty"`
	Buckets      []SpamBucket    `msg:"6,omitempty"`
	RefusedNames []RefusedName   `msg:"7,omitempty"` // oldest first
	Notices      Notices         `msg:"8,omitempty"`
	// KeepUntil is when nothing here matters any more, unless something is pending.
	KeepUntil int64 `msg:"9,omitempty"`
	// InvolvedObject and Source are what a notice needs to know of a group of which something was refused.
	InvolvedObject store.Object `msg:"10"`
	Source         store.Source `msg:"11"`
	// LastSteps are the last steps of processes that share the register, but for the one that took the last step of all.
	LastSteps []LastStep `msg:"12,omitempty"`
	// FirstWrite is when the first write happened of which anything is kept here, by its writer's clock; 0 before that. What
	// quotas refuse before leaves nothing here.
	FirstWrite int64 `msg:"13,omitempty"`
	// OriginNamespace is the namespace of the Events that have made a notice's register, if that is not Namespace.
	OriginNamespace string `msg:"14,omitempty"`
	// CountedUntil is until when a store keeps the place of the register among those of the namespace, in seconds; see store/redis.
	CountedUntil int64 `msg:"15,omitempty"`

	// correctedAt is the time of the last step of this process: where that is not later than the next one, nothing is ahead.
	correctedAt int64 `msg:"-"`
}

// LastStep is the last step of a process, and when another process took the next one, in seconds of Unix time.
type LastStep struct {
	Step store.Key `msg:"1"`
	At   int64     `msg:"2"`
}

// TrackedEvent is what is known of one stored Event. Written is the count in the API server's copy; the rest of Total is pending.
type TrackedEvent struct {
	ID  uint64    `msg:"1"`
	Key store.Key `msg:"2,omitzero"` // Write.Exact or Write.Similar; zero for one found by name only
	// Name is empty while the API server has no such Event and none took its place.
	Name string `msg:"3,omitempty"`
	// UID and Version (the resourceVersion) are those last seen; Version is empty before the Event was read. Without a UID,
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

	ReceivedAt int64     `msg:"15,omitempty"` // when the last occurrence came
	Window     int64     `msg:"16,omitempty"` // Limits.Window of that
	LastSeen   int64     `msg:"17,omitempty"` // when the newest occurrence happened, by the writer's clock
	ContentKey store.Key `msg:"18,omitzero"`  // content of the last UPDATE that was admitted

	// AdmittedAt is when the last write of a client that was admitted was, which says what Written is.
	AdmittedAt int64 `msg:"24,omitempty"`
	// Retries is how often Same was admitted again without a token.
	Retries int `msg:"25,omitempty"`
	// AssumedReported is how many of Own were taken for reported by a quota, see RefusedName.
	AssumedReported int64 `msg:"23,omitempty"`

	Text     string        `msg:"19,omitempty"` // newest message, of an aggregate only
	Messages []store.Tally `msg:"20,omitempty"` // newest distinct messages, of an aggregate only

	Schedule `msg:"21,omitempty"`
}

// RefusedName is the highest count that came under a name which was refused. A name is not kept that a quota refused at its
// first occurrence, or whatever its count in a register that has nothing else: that costs the store nothing.
type RefusedName struct {
	Key   uint64 `msg:"1"`
	Count uint32 `msg:"2,omitempty"`
	// AssumedReported is how many of Count were taken for reported by a quota, which leaves no trace. A replica that reports
	// these later has refused them itself.
	AssumedReported uint32 `msg:"5,omitempty"`
	At              uint32 `msg:"3"` // in seconds of Unix time
	// NameTaken says that the API server has another Event of that name.
	NameTaken bool `msg:"4,omitempty"`
}

// SimilarEvents counts the distinct messages of Events that are alike but for their message, as
// client-go's EventAggregator does.
type SimilarEvents struct {
	Key      uint64   `msg:"1"`
	Last     int64    `msg:"2"`
	Messages []uint64 `msg:"3,omitempty"` // at most Limits.MaxEvents-1
}

// SpamBucket is a token bucket of a source and object, with the reserves that let a rare reason
// through when it is empty.
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

// BucketState is how much of a token bucket is used: the time in which what is used comes back, and when that was true,
// both in microseconds. The zero value is a full bucket. What has come back since is subtracted when it is read.
type BucketState struct {
	Used int64 `msg:"1,omitempty"`
	At   int64 `msg:"2,omitempty"`
}

// Schedule is when a stored Event or a notice is next written. The wait between two writes doubles
// with each, from Interval up to Max, and halves for each Max that passes without one. So in a time
// T there are at most 2 + log2(Max/Interval) + T/Max writes, the CREATE included.
type Schedule struct {
	Due          int64  `msg:"1,omitempty"` // 0 when nothing is pending
	WrittenAt    int64  `msg:"2,omitempty"` // when it was last written; 0 for never
	Doublings    int    `msg:"3,omitempty"`
	Interval     int64  `msg:"4,omitempty"`
	MaxInterval  int64  `msg:"5,omitempty"`
	Changes      uint64 `msg:"6,omitempty"` // counts what changed and what was written
	FailingSince int64  `msg:"7,omitempty"` // since when writes fail; 0 when they do not
}

// Notices are those of one register, oldest first: of the spam filters of a group's Events, or of one quota. A group of which
// only notices are kept is the register of a quota.
type Notices []Notice

// Notice is the Event that reports what one bucket refused in one window.
type Notice struct {
	ID       uint64 `msg:"1"`
	Name     string `msg:"2"`
	UID      string `msg:"7,omitempty"`
	Version  string `msg:"8,omitempty"`
	OpenedAt int64  `msg:"9"`
	Written  int64  `msg:"14,omitempty"`
	// OriginHash is the namespace of the Event that opened it, in short.
	OriginHash uint64 `msg:"26,omitempty"`
	Drops      `msg:"3"`
	Schedule   `msg:"19,omitempty"`
}

// Drops are refused occurrences that one notice is to report. The zero value is none. Any number of
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
	// Reason is that of all of them, and then all are Warnings or none; empty where that need not be so.
	Reason string `msg:"20,omitempty"`
	// Workloads are counted like Reasons, where they are known, and Workload is one of them.
	Workloads []TopItem    `msg:"21,omitempty"`
	Workload  store.Object `msg:"22,omitzero"`
	// DistinctObjects are the objects, Belonging their workloads, and Others says that they are not all Pods.
	DistinctObjects   Distinct `msg:"23,omitempty"`
	DistinctWorkloads Distinct `msg:"24,omitempty"`
	OtherKinds        bool     `msg:"25,omitempty"`
	// NotInSink is how many of Total are not in the sink.
	NotInSink int64 `msg:"26,omitempty"`

	writeInterval, maxWriteInterval time.Duration // for the Schedule of the notice
	// namespace is the namespace of the Events, and of is Bucket.Of.
	namespace, limitID string
}

// TopItem is one of the things that a notice lists.
//
// The lists are bounded, and shared out by namespace, as busiest.Counter does: when one is full, a new thing takes the place of the
// lightest, of the namespaces that have more places than its own; if there are none, of its own; if that has none, of all. It
// takes over the weight too (Space-Saving; Metwally, Agrawal, El Abbadi 2005), so of k places in which a namespace competes with
// itself, anything that makes more than a k-th of its weight is always among them. So a namespace that invents things
// displaces its own, and no claim takes all places.
type TopItem struct {
	Name string `msg:"1,omitempty"`
	// Count is how many occurrences were counted under it since it was listed.
	Count  int64 `msg:"2,omitempty"`
	Weight int64 `msg:"3,omitempty"`
	// NamespaceHash is the namespace of the Events, in short.
	NamespaceHash uint64 `msg:"4,omitempty"`
}

// Distinct counts distinct things in at most 512 bytes. Up to 63 it is exact: their hashes, in order. Beyond it is a HyperLogLog
// (Flajolet, Fusy, Gandouet, Meunier 2007) of 512 registers, whose estimate, by Ertl (2017), has a standard error of 4.6 %. It
// depends only on what was counted, in whatever order, how often and where: Merge of two replicas' is what one would have.
type Distinct []byte

// formatVersion is the first byte of an encoded Group. A value of another format is a newer replica's and
// must not be overwritten.
const formatVersion = 1

// ErrUnknownFormat says that a value was not written by this format.
var ErrUnknownFormat = errors.New("register of a format that this version does not know")

// MaxGroupBytes is the largest Size of a Group, which bounds the work of a step.
const MaxGroupBytes = 64 << 10

// Append encodes g, and appends that to b.
func (g *Group) Append(b []byte) []byte {
	b, err := g.MarshalMsg(append(b, formatVersion))
	if err != nil {
		panic(err) // of types that no Group has
	}
	return b
}

// Unmarshal decodes what Append has encoded. The error is ErrUnknownFormat for what a newer version may have written.
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
