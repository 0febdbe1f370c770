package policytest

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// The type of test files. The group differs from that of policies, because clusters have no such objects.
const (
	apiVersion = "test.eventquota.io/v1alpha1"
	kind       = "PolicyTest"
)

// suiteFile is the content of a test file.
type suiteFile struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Policies are files and directories, relative to the test file. The built-in default is always included.
	Policies []string `json:"policies"`
	// Namespaces has the labels of namespaces. Other namespaces have none.
	Namespaces map[string]map[string]string `json:"namespaces"`
	Tests      []test                       `json:"tests"`
}

// test is a sequence of steps. It starts with an empty store and full buckets.
type test struct {
	Name   string `json:"name"`
	Events []step `json:"events"`
	// Want has the expectations for all Events together.
	Want *totals `json:"want"`
}

// step writes an Event about one or several objects, once or repeatedly.
type step struct {
	// Event or Object is the Event to write: in the short form, or as an Event of core/v1.
	Event  *event        `json:"event"`
	Object *corev1.Event `json:"object"`
	// User is the user of the requests, by default the service account default of the namespace. Groups are by default
	// those that the API server gives this user.
	User   string   `json:"user"`
	Groups []string `json:"groups"`
	// At is the time of the first write since the start, by default that of the last write of the previous step.
	At *duration `json:"at"`
	// Objects is the number of objects. {n} in texts of the Event is replaced by the number of the object, from 0.
	Objects *int32 `json:"objects"`
	// Times is the number of writes for each object, and Every the time between them. {i} is replaced by the number of the
	// write, from 0.
	Times *int32   `json:"times"`
	Every duration `json:"every"`
	// Repeat is how writes are repeated: Create or Patch.
	Repeat string `json:"repeat"`
	// Want has the expectations for the Events of the step.
	Want *want `json:"want"`
}

// The values of Repeat.
const (
	// repeatCreate sends a CREATE each time, as clients that do not merge do. It is the default.
	repeatCreate = "Create"
	// repeatPatch sends a CREATE, and then PATCHes that increase the count, as a recorder does.
	repeatPatch = "Patch"
)

// event is the short form of an Event.
type event struct {
	Namespace string `json:"namespace"`
	// About is the involved object as kind/name, preceded by its API version and a slash unless that is v1.
	About      string `json:"about"`
	Reason     string `json:"reason"`
	Type       string `json:"type"`
	Message    string `json:"message"`
	Controller string `json:"controller"`
	Host       string `json:"host"`
}

// counts has the expected counts of Events. If none of Admitted, Merged and Dropped is set, any outcome passes. Otherwise the
// unset ones must be 0.
type counts struct {
	Admitted *amount `json:"admitted"`
	Merged   *amount `json:"merged"`
	Dropped  *amount `json:"dropped"`
	// RefusedBy lists everything that drops any of the Events. If it is unset, any may.
	RefusedBy *names `json:"refusedBy"`
}

// want has the expectations for the Events of a step or a test.
type want struct {
	counts

	// Policy lists all policies that govern any of the Events. If it is unset, any may.
	Policy *names `json:"policy"`
	// Combined counts the admitted Events that are stored as combined Events.
	Combined *amount `json:"combined"`
	// WarningsDropped counts the dropped Events of type Warning.
	WarningsDropped *amount `json:"warningsDropped"`
	// Audited has the expected decisions of rules in mode Audit, if their mode were Enforce.
	Audited *counts `json:"audited"`
}

// totals has the expectations for all Events of a test.
type totals struct {
	want

	// EtcdWrites counts the writes of clients, of counts and of notices, until nothing is pending.
	EtcdWrites *amount `json:"etcdWrites"`
	// Notices counts the stored notices: EventsDropped and combined ones.
	Notices *amount `json:"notices"`
}

// amount is a number or a range.
type amount struct{ Min, Max int64 }

// UnmarshalJSONFrom reads a number, or an object with min, max or both.
func (a *amount) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	const must = "must be an integer of at least 0, or an object with min, max or both"
	if d.PeekKind() != '{' {
		var n int64
		if err := json.UnmarshalDecode(d, &n); err != nil || n < 0 {
			return document.ValueError(must)
		}
		a.Min, a.Max = n, n
		return nil
	}
	var bounds struct {
		Min *int64 `json:"min"`
		Max *int64 `json:"max"`
	}
	if err := json.UnmarshalDecode(d, &bounds); err != nil || bounds.Min == nil && bounds.Max == nil {
		return document.ValueError(must)
	}
	*a = amount{0, maxWrites}
	if bounds.Min != nil {
		a.Min = *bounds.Min
	}
	if bounds.Max != nil {
		a.Max = *bounds.Max
	}
	if a.Min < 0 || a.Max < a.Min {
		return document.ValueError(must + ", with min at most max")
	}
	return nil
}

// String returns the number or range in words.
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

// contains reports whether n is the number or in the range. A nil amount contains only 0.
func (a *amount) contains(n int64) bool {
	if a == nil {
		return n == 0
	}
	return n >= a.Min && n <= a.Max
}

// names is a name or a list of names.
type names []string

// UnmarshalJSONFrom reads a text or a list of texts.
func (n *names) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var err error
	if d.PeekKind() == '[' {
		err = json.UnmarshalDecode(d, (*[]string)(n))
	} else {
		*n = make(names, 1)
		err = json.UnmarshalDecode(d, &(*n)[0])
	}
	if err != nil {
		return document.ValueError("must be text or a list of texts")
	}
	return nil
}

// duration is a time.Duration from 0 to maxTime.
type duration time.Duration

// UnmarshalJSONFrom reads a duration in the format of time.ParseDuration.
func (d *duration) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	var text string
	if err := json.UnmarshalDecode(in, &text); err != nil {
		return document.ValueError("must be a duration such as 10s or 1h30m")
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 || parsed > maxTime {
		return document.ValueError(fmt.Sprintf("must be a duration from 0s to %.0fh, such as 10s or 1h30m", maxTime.Hours()))
	}
	*d = duration(parsed)
	return nil
}
