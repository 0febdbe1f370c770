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
