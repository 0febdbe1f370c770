package store

import "time"

// Write is one Event write.
type Write struct {
	// Group names the Event's user, namespace, source and object: all state but quotas is its. Object names
	// the same without the user, to recognize a stored Event by.
	Group, Object Key
	// Exact names Events that repeat each other, Similar those that differ in their message only,
	// and Message the message. Exact and Similar do not depend on the user.
	Exact, Similar, Message Key
	Namespace, Name         string
	// Count is the number of occurrences that the write reports, from 1, of all that the writer has
	// seen under this name. Series says that the Event keeps it in series.count.
	Count  int64
	Series bool
	// First and At are when the first and the newest occurrence happened, by the writer's clock;
	// zero where it does not say.
	First, At time.Time
	// Text is the message, within its size limit and without the prefix of an aggregate; Combined
	// says that it had that prefix.
	Text     string
	Combined bool
	// Reason, Warning, About and Source are what a notice about the write would say.
	Reason  string
	Warning bool
	About   Object
	Source  Source

	Update *Update // nil for a CREATE
}

// Object is what an Event is about.
type Object struct {
	APIVersion string `cbor:"1,keyasint,omitempty"`
	Kind       string `cbor:"2,keyasint,omitempty"`
	Namespace  string `cbor:"3,keyasint,omitempty"`
	Name       string `cbor:"4,keyasint,omitempty"`
	UID        string `cbor:"5,keyasint,omitempty"`
}

// Source is who reports an Event.
type Source struct {
	Component string `cbor:"1,keyasint,omitempty"`
	Host      string `cbor:"2,keyasint,omitempty"`
}

// Update is what an UPDATE adds to a Write.
type Update struct {
	// Recorder says that the write moves nothing but what a recorder moves when an Event
	// repeats. Any other UPDATE is never merged; it pays the quotas.
	Recorder bool
	// Reverts says that a recorder's UPDATE would put back a message that was cut or combined
	// when the Event was stored: only its count is wanted, so it is always merged.
	Reverts bool
	// UID is that of the stored Event, and Stored what it says.
	UID    string
	Stored Stored
	// Same names the write's content. The API server asks for admission of one write again after
	// a conflict in storage; the repeat has the same key.
	Same Key
}

// Stored is what a stored Event says of its count.
type Stored struct {
	// Count is its count, from 1; 0 where the Event was not looked at.
	Count int64
	// Merged is how much of Count came under other names, by the annotation that was written with
	// it. Overwritten says that a recorder has overwritten the count since with its own, and Foreign
	// that another store has written the annotation: one that this one takes the place of.
	Merged               int64
	Overwritten, Foreign bool
}

// Parts are how many occurrences came under the Event's own name and under others. Anyone may have
// written what the Event says, so merged is at most about a thousand billion, either way.
func (s Stored) Parts() (own, merged int64) {
	const most = 1 << 40
	merged = min(max(s.Merged, -most), most)
	if s.Overwritten {
		return s.Count, merged
	}
	return s.Count - merged, merged
}

// NoticeNamespace is where a notice about o is stored. The API server takes an Event about an object
// of the cluster in no other namespace than default.
func (o Object) NoticeNamespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// String is o as notices list it: "Kind/name", with its namespace before it where it has one.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Namespace + "/" + o.Kind + "/" + o.Name
}
