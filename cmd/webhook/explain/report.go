package explain

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// explanation is what explain reports. Its JSON is what -o json prints.
type explanation struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Store is what was looked into.
	Store   explainedStore    `json:"store"`
	Sources []explainedSource `json:"sources"`
	// Dropped is what the quotas of all sources have dropped, of any object.
	Dropped []explainedNotice `json:"dropped,omitempty"`
	// Notes say what is not known, and what is uncertain by it.
	Notes []string `json:"notes,omitempty"`
}

type explainedStore struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // by its clock
}

// explainedSource is a source of Events about the object, as one user writes them.
type explainedSource struct {
	Component  string `json:"component"`
	Host       string `json:"host,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	UID        string `json:"uid,omitempty"`
	Writer     string `json:"writer"`
	// Known tells whether the store knows anything of it.
	Known    bool              `json:"known"`
	Policies []explainedPolicy `json:"policies"`
	Events   []explainedEvent  `json:"events,omitempty"`
	Buckets  []explainedBucket `json:"buckets,omitempty"`
	Next     []explainedNext   `json:"next"`
	Dropped  []explainedNotice `json:"dropped,omitempty"`

	store string
	at    time.Time
}

// explainedPolicy governs Events of some reasons.
type explainedPolicy struct {
	Name    string   `json:"name"`
	Why     string   `json:"why"`
	Reasons []string `json:"reasons"`
	// Audited would govern them if its mode were Enforce.
	Audited string `json:"audited,omitempty"`
}

// explainedEvent is a stored Event. Counts are those of the store, or where that
// does not know it, of the API server.
type explainedEvent struct {
	// Name is empty for one that was not found: what is pending goes with the next one.
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
	// Merged is how much of Count came under other names, and Pending how much the
	// API server has not been sent.
	Merged  int64 `json:"merged"`
	Pending int64 `json:"pending"`
	// Due is when what is pending is to be written; zero when nothing is.
	Due   time.Time `json:"due,omitzero"`
	Known bool      `json:"known"`
}

type explainedBucket struct {
	Bucket string `json:"bucket"`
	For    string `json:"for,omitempty"`
	Policy string `json:"policy"`
	Tokens int    `json:"tokens"`
	Burst  int    `json:"burst"`
	// Next is when there is one more; zero when it is full, or never has any.
	Next time.Time `json:"next,omitzero"`
}

// explainedNext says what would become of one more Event of a type and reason.
type explainedNext struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	// Reserve is how many are admitted though the spam filter has no token.
	Reserve   int       `json:"reserve"`
	PerReason int       `json:"perReason"`
	Renewed   time.Time `json:"renewed,omitzero"`
	// Same is about one that repeats the newest one that is stored, if there is
	// one, and Other about one with another message.
	Same  *explainedOutcome `json:"same,omitempty"`
	Other *explainedOutcome `json:"other"`
}

// explainedOutcome is that of a write; Because is what its writer would read.
type explainedOutcome struct {
	Outcome string `json:"outcome"`
	Because string `json:"because,omitempty"`
}

// explainedNotice is what one bucket has dropped within a window.
type explainedNotice struct {
	Name    string           `json:"name"`
	Bucket  string           `json:"bucket,omitempty"`
	Policy  string           `json:"policy,omitempty"`
	About   string           `json:"about"`
	Since   time.Time        `json:"since"`
	Count   int64            `json:"count"`
	Reasons map[string]int64 `json:"reasons,omitempty"` // empty for those beyond 15
	Sources map[string]int64 `json:"sources,omitempty"` // likewise
	Pending int64            `json:"pending"`
	Due     time.Time        `json:"due,omitzero"`
}

func (e *explanation) write(w io.Writer, f output.Format) error {
	if done, err := f.Write(w, e, "  "); done {
		return err
	}
	if f == output.Name {
		for _, s := range e.Sources {
			for _, event := range s.Events {
				if event.Name != "" {
					fmt.Fprintln(w, "event/"+event.Name)
				}
			}
		}
		return nil
	}
	rows := mostRows
	if f == output.Wide {
		rows = math.MaxInt
	}
	e.print(w, rows)
	return nil
}
