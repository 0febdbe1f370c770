package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/test/cluster"
)

// answer is a kind of answer of the API server to a client's write.
type answer struct {
	verb   string // create, update or patch
	code   int
	reason metav1.StatusReason
}

// final reports whether the webhook has answered, or nobody refused. Otherwise the name was not stored, or the API server found that the
// Event has changed since the client read it.
func (a answer) final() bool {
	return a.code != http.StatusNotFound && a.reason != metav1.StatusReasonConflict
}

// answers counts the answers to the writes of one client in one namespace.
type answers map[answer]int

// finals returns the number of final answers.
func (a answers) finals() (n int) {
	for kind, times := range a {
		if kind.final() {
			n += times
		}
	}
	return n
}

// conflicts returns how many writes the API server refused because the Event had changed.
func (a answers) conflicts() (n int) {
	for kind, times := range a {
		if kind.reason == metav1.StatusReasonConflict {
			n += times
		}
	}
	return n
}

// reactions returns what a client does after these answers.
func (a answers) reactions(client *admission.Client) reactions {
	want := reactions{}
	for kind, times := range a {
		switch {
		case kind.reason == metav1.StatusReasonConflict:
		case kind.code == http.StatusConflict:
			want[client.Conflict] += times
		case kind.code == http.StatusBadRequest:
			want[client.BadRequest] += times
		}
	}
	delete(want, admission.GoesOn)
	return want
}

// String lists the answers, as in "1 create 201, 2 patch 409".
func (a answers) String() string {
	counts := map[string]int{}
	for kind, times := range a {
		counts[fmt.Sprint(kind.verb, " ", kind.code)] += times
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprint(counts[kind], " ", kind))
	}
	return strings.Join(list, ", ")
}

// answers returns the answers to the clients' writes so far, by namespace.
func (e *env) answers() map[string]answers {
	e.Helper()
	all := map[string]answers{}
	e.must((&cluster.AuditLog{Path: e.cluster.AuditLog}).ReadNew(func(line []byte) error {
		var entry struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Namespace string }
			ResponseStatus struct {
				Code   int
				Reason metav1.StatusReason
			}
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return err
		}
		if entry.User.Username != writer {
			return nil
		}
		if all[entry.ObjectRef.Namespace] == nil {
			all[entry.ObjectRef.Namespace] = answers{}
		}
		all[entry.ObjectRef.Namespace][answer{entry.Verb, entry.ResponseStatus.Code, entry.ResponseStatus.Reason}]++
		return nil
	}))
	return all
}
