package store

// What stores keep of Events and their counts as it is. msgp makes the methods that encode it.

//msgp:clearomitted

// Object is what an Event is about.
type Object struct {
	APIVersion string `msg:"1,omitempty"`
	Kind       string `msg:"2,omitempty"`
	Namespace  string `msg:"3,omitempty"`
	Name       string `msg:"4,omitempty"`
	UID        string `msg:"5,omitempty"`
}

// Source is who reports an Event.
type Source struct {
	Component string `msg:"1,omitempty"`
	Host      string `msg:"2,omitempty"`
}

// Occurrences are those of one stored Event. Each is reported in one place: by this Event, or elsewhere.
type Occurrences struct {
	// Own is the highest count seen under the Event's own name, and Total counts those that this Event reports.
	Own   int64 `msg:"11,omitempty"`
	Total int64 `msg:"12,omitempty"`
	// Annotated is how many were merged by the Event's annotation, as it was last read or written.
	Annotated int64 `msg:"22,omitempty"`
	// Partial says that the Event has occurrences beside those of Total, which are known once it is read.
	Partial bool `msg:"10,omitempty"`
}

// Tally counts occurrences of one thing.
type Tally struct {
	Name  string `msg:"1" json:"what"`
	Count int64  `msg:"2" json:"count"`
}
