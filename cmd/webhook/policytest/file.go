package policytest

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// What a file says that it is. No cluster has such objects, so the group is not that of policies.
const (
	apiVersion = "test.eventquota.io/v1alpha1"
	kind       = "PolicyTest"
)

// suiteFile is a file of tests.
type suiteFile struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Policies are files and directories, from the directory of the file. The built-in default is always there.
	Policies []string `json:"policies"`
	// Namespaces have labels. All others that Events are in have none.
	Namespaces map[string]map[string]string `json:"namespaces"`
	Tests      []test                       `json:"tests"`
}

// test begins with nothing stored and all buckets full.
type test struct {
	Name   string `json:"name"`
	Events []step `json:"events"`
	// Want is what becomes of all Events together.
	Want *totals `json:"want"`
}

// step is one Event and its repetitions, for one object or several.
type step struct {
	// Event or Object is what is written: the usual fields, or an Event of core/v1.
	Event  *event        `json:"event"`
	Object *corev1.Event `json:"object"`
	// User writes it, by default the service account default of its namespace. Groups are by default those that the
	// API server gives a user of this name.
	User   string   `json:"user"`
	Groups []string `json:"groups"`
	// At is when it happens first, by default when the last of the step before does.
	At *duration `json:"at"`
	// Objects is how many Events there are, whose texts have the number of each, from 0, for {n}.
	Objects *int32 `json:"objects"`
	// Times is how often each is written, with the number of the time, from 0, for {i}, and Every is how long after the
	// time before.
	Times *int32   `json:"times"`
	Every duration `json:"every"`
	// Repeat is how: Create or Patch.
	Repeat string `json:"repeat"`
	// Want is what becomes of them.
	Want *want `json:"want"`
}

// How a client repeats an Event.
const (
	// repeatCreate is a CREATE each time, as of clients that do not merge. It is the default.
	repeatCreate = "Create"
	// repeatPatch is a CREATE, and then the PATCHes by which a recorder counts it up.
	repeatPatch = "Patch"
)

// event is the short form of an Event.
type event struct {
	Namespace string `json:"namespace"`
	// About is the kind and name of the involved object, with the version of its API before if that is not v1.
	About      string `json:"about"`
	Reason     string `json:"reason"`
	Type       string `json:"type"`
	Message    string `json:"message"`
	Controller string `json:"controller"`
	Host       string `json:"host"`
}

// counts say what becomes of Events. Where none is there, any outcome is right; else those that are missing are 0.
type counts struct {
	Admitted *amount `json:"admitted"`
	Merged   *amount `json:"merged"`
	Dropped  *amount `json:"dropped"`
	// RefusedBy are all that drop any of them. Absent, any may.
	RefusedBy *names `json:"refusedBy"`
}

// want is what becomes of the Events of a step, or of all.
type want struct {
	counts

	// Policy are all policies that govern any of them. Absent, any may.
	Policy *names `json:"policy"`
	// Combined are those of the admitted that are stored as combined from similar ones.
	Combined *amount `json:"combined"`
	// WarningsDropped are the dropped ones of type Warning.
	WarningsDropped *amount `json:"warningsDropped"`
	// Audited is what would become of those that a rule in mode Audit matches if that were Enforce.
	Audited *counts `json:"audited"`
}

// totals are what becomes of all Events of a test.
type totals struct {
	want

	// EtcdWrites are those of clients, of counts and of notices, until nothing is pending.
	EtcdWrites *amount `json:"etcdWrites"`
	// Notices are how many are stored, EventsDropped and combined ones.
	Notices *amount `json:"notices"`
}

// amount is a number, or its bounds.
type amount struct{ Min, Max int64 }

// UnmarshalJSONFrom reads a number, or an object with min, max or both.
func (a *amount) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	const must = "must be a whole number from 0, or an object with min, max or both"
	if d.PeekKind() != '{' {
		var n int64
		if err := json.UnmarshalDecode(d, &n); err != nil || n < 0 {
			return document.ValueError(must)
		}
		a.Min, a.Max = n, n
		return nil
	}
	var of struct {
		Min *int64 `json:"min"`
		Max *int64 `json:"max"`
	}
	if err := json.UnmarshalDecode(d, &of); err != nil || of.Min == nil && of.Max == nil {
		return document.ValueError(must)
	}
	*a = amount{0, maxWrites}
	if of.Min != nil {
		a.Min = *of.Min
	}
	if of.Max != nil {
		a.Max = *of.Max
	}
	if a.Min < 0 || a.Max < a.Min {
		return document.ValueError(must + ", min not above max")
	}
	return nil
}

// String says how many.
func (a *amount) String() string {
	switch {
	case a == nil:
		return "0"
	case a.Min == a.Max:
		return fmt.Sprint(a.Min)
	case a.Max == maxWrites:
		return fmt.Sprintf("at least %d", a.Min)
	case a.Min == 0:
		return fmt.Sprintf("at most %d", a.Max)
	}
	return fmt.Sprintf("%d to %d", a.Min, a.Max)
}

// contains reports whether n is right.
func (a *amount) contains(n int64) bool {
	if a == nil {
		return n == 0
	}
	return n >= a.Min && n <= a.Max
}

// names is a text, or a list of them.
type names []string

// UnmarshalJSONFrom reads one text or several.
func (n *names) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var err error
	if d.PeekKind() == '[' {
		err = json.UnmarshalDecode(d, (*[]string)(n))
	} else {
		*n = make(names, 1)
		err = json.UnmarshalDecode(d, &(*n)[0])
	}
	if err != nil {
		return document.ValueError("must be text, or a list of texts")
	}
	return nil
}

// duration is how long something takes.
type duration time.Duration

// UnmarshalJSONFrom reads a duration as Go writes it.
func (l *duration) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var says string
	if err := json.UnmarshalDecode(d, &says); err != nil {
		return document.ValueError("must be a duration such as 10s or 1h30m")
	}
	long, err := time.ParseDuration(says)
	if err != nil || long < 0 || long > maxTime {
		return document.ValueError(fmt.Sprintf("must be a duration from 0s to %.0fh, such as 10s or 1h30m", maxTime.Hours()))
	}
	*l = duration(long)
	return nil
}
