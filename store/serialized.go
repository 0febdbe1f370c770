package store

// The types that stores keep as they are. msgp generates their encoding.

//msgp:clearomitted

// Object is the involved object of an Event.
type Object struct {
	APIVersion string `msg:"1,omitempty"`
	Kind       string `msg:"2,omitempty"`
	Namespace  string `msg:"3,omitempty"`
	Name       string `msg:"4,omitempty"`
	UID        string `msg:"5,omitempty"`
}

// Source is the reporter of an Event.
type Source struct {
	Component string `msg:"1,omitempty"`
	Host      string `msg:"2,omitempty"`
}

// Occurrences are the counts of one stored Event.
type Occurrences struct {
	// Own is the highest count seen under the Event's own name. Total is how many occurrences the Event reports.
	Own   int64 `msg:"11,omitempty"`
	Total int64 `msg:"12,omitempty"`
	// Sent is the highest count that came under the Event's own name, if it is above Own: a client that replaces the whole Event sends
	// the stored count and one more, which is not stored if it was merged. Stamp is the newest Write.Stamp that came with the higher
	// one of both; 0 if it is unknown.
	Sent  int64 `msg:"13,omitempty"`
	Stamp int64 `msg:"14,omitempty"`
	// Annotated is the merged count in the Event's annotation when it was last read or written.
	Annotated int64 `msg:"22,omitempty"`
	// Partial reports that the Event has further occurrences, which are known once it is read.
	Partial bool `msg:"10,omitempty"`
}

// Tally is a number of occurrences, by name.
type Tally struct {
	Name  string `msg:"1" json:"what"`
	Count int64  `msg:"2" json:"count"`
}
