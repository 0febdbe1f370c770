package store

import (
	"encoding/hex"
	"fmt"
	"time"
)

// Peeked is what a store knew of some groups and shared buckets at one moment. It
// is a copy, which can be sent as JSON: it has no message of an Event, and of
// Events that are not in it nothing but keys.
//
// Of a Redis store it is what Redis holds. What a replica refused by itself is in
// it 200 ms later, and tokens that a replica has leased count as used until they
// come back, within 375 ms.
type Peeked struct {
	// At is the moment, by the clock of the store.
	At time.Time `json:"at"`
	// Groups are those of which something is known, in the order asked for.
	Groups []PeekedGroup `json:"groups,omitempty"`
	// Shared are quotas and shared spam buckets that may not be full.
	Shared []PeekedBucket `json:"shared,omitempty"`
}

// PeekedGroup is what is known of one source and object.
type PeekedGroup struct {
	Key Key `json:"key"`
	// Records are its stored Events and notices, 128 and some notices at most.
	Records []PeekedRecord  `json:"records,omitempty"`
	Similar []PeekedSimilar `json:"similar,omitempty"`
	// Buckets are its spam buckets, 16 at most. Of one that groups share it has
	// the reserves only.
	Buckets []PeekedBucket `json:"buckets,omitempty"`
}

// PeekedRecord is one stored Event or notice.
type PeekedRecord struct {
	ID uint64 `json:"id"`
	// Name is empty once the API server has said that the Event is gone; what is
	// owed waits for the next one in its place.
	Name   string `json:"name,omitempty"`
	Key    Key    `json:"key,omitzero"`
	Reason string `json:"reason,omitempty"`
	// Total counts the occurrences that it tells, and Own the highest count that
	// came under its own name. Written is the count in the API server's copy.
	Total   int64 `json:"total"`
	Own     int64 `json:"own"`
	Written int64 `json:"written"`
	// Share is what its own CREATE added to Total, and Before what was told under
	// its name before that, until it is Confirmed that it is stored.
	Share     int64 `json:"share,omitempty"`
	Before    int64 `json:"before,omitempty"`
	Confirmed bool  `json:"confirmed,omitempty"`
	Aggregate bool  `json:"aggregate,omitempty"`
	Series    bool  `json:"series,omitempty"`
	// Expected is when the mutating phase let it through, Seen when the last
	// occurrence came, and LastWrite when it was last written; zero for never.
	Expected  time.Time `json:"expected,omitzero"`
	Seen      time.Time `json:"seen,omitzero"`
	LastWrite time.Time `json:"lastWrite,omitzero"`
	// Flush and Window are those of the terms that governed the last occurrence.
	Flush  time.Duration `json:"flush"`
	Window time.Duration `json:"window"`
	// Due is when the settler is to write it, zero when nothing is owed, and
	// Claimed until when one holds it.
	Due     time.Time `json:"due,omitzero"`
	Claimed time.Time `json:"claimed,omitzero"`
	// Notice tells that this is one about drops, of which the first was at First,
	// and Dropped how many there were by reason: Notice.Reasons.
	Notice  bool      `json:"notice,omitempty"`
	First   time.Time `json:"first,omitzero"`
	Dropped []Tally   `json:"dropped,omitempty"`
}

// Pending is how many occurrences the API server has not been told of yet. It is
// less than 0 where a recorder has written more than there were.
func (r *PeekedRecord) Pending() int64 {
	if r.Due.IsZero() {
		return 0
	}
	return r.Total - r.Written
}

// PeekedSimilar is what makes Events similar: the messages that were told apart.
type PeekedSimilar struct {
	Key      Key       `json:"key"`
	Last     time.Time `json:"last"`
	Messages []Key     `json:"messages,omitempty"`
}

// PeekedBucket is the level of a token bucket, whatever its limit.
type PeekedBucket struct {
	Key Key `json:"key"`
	// Full is when it is full again, under the limit by which it was last asked.
	// A moment that has passed is a full bucket.
	Full     time.Time       `json:"full"`
	Reserves []PeekedReserve `json:"reserves,omitempty"`
}

// PeekedReserve is how many Events of a reason were admitted by Until. Reason is
// its KeyOf.
type PeekedReserve struct {
	Reason Key       `json:"reason"`
	Used   int       `json:"used"`
	Until  time.Time `json:"until"`
}

// Group finds a group.
func (p *Peeked) Group(key Key) (*PeekedGroup, bool) {
	for i := range p.Groups {
		if p.Groups[i].Key == key {
			return &p.Groups[i], true
		}
	}
	return nil, false
}

// MarshalText implements encoding.TextMarshaler, as String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes 32 hexadecimal
// digits and nothing else.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(k)) {
		return fmt.Errorf("key of %d characters: must be %d hexadecimal digits", len(text), hex.EncodedLen(len(k)))
	}
	if _, err := hex.Decode(k[:], text); err != nil {
		return fmt.Errorf("key %.40q: must be %d hexadecimal digits", text, hex.EncodedLen(len(k)))
	}
	return nil
}
