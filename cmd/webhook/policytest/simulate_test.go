package policytest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/simulate"
)

// auditLine returns the line of an audit log for a write.
func auditLine(t *testing.T, m *simulate.GeneratedWrite) string {
	t.Helper()
	verb, group, code := "create", "", 201
	e := *m.Event
	e.APIVersion, e.Kind = "v1", "Event"
	body, err := json.Marshal(&e)
	if m.Patch {
		verb, code = "patch", 200
		body = fmt.Appendf(nil, `{"count":%d,"lastTimestamp":%q}`, m.Event.Count, m.Event.LastTimestamp.UTC().Format(time.RFC3339))
		if m.NewAPI {
			body = fmt.Appendf(nil, `{"series":{"count":%d,"lastObservedTime":%q}}`, m.Event.Series.Count, m.At.UTC().Format(metav1.RFC3339Micro))
		}
	}
	if m.NewAPI {
		group = "events.k8s.io"
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb,
		"requestURI":               "/api/v1/namespaces/" + m.Event.Namespace + "/events",
		"user":                     map[string]any{"username": m.User.Username, "groups": m.User.Groups},
		"objectRef":                map[string]any{"resource": "events", "apiGroup": group, "namespace": m.Event.Namespace, "name": m.Event.Name},
		"responseStatus":           map[string]any{"code": code},
		"requestReceivedTimestamp": metav1.NewMicroTime(m.At), "requestObject": json.RawMessage(body),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

// TestOutcomesMatchSimulate writes the Events of each test as an audit log. Simulating the log must give the same decisions
// for the same reasons.
func TestOutcomesMatchSimulate(t *testing.T) {
	compared := 0
	for _, dir := range []string{"testdata/passing", "../../../test/policies"} {
		files, err := discover([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			s, err := readSuite(name)
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.tests {
				if n := compareWithSimulate(t, s, i); n > 0 {
					compared += n
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d writes were compared, want at least 1,000", compared)
	}
}

// maxCompared is the number of writes above which a test is not compared. Longer audit logs would add nothing.
const maxCompared = 700

// compareWithSimulate compares the decisions of a test with those of its audit log, and returns the number of writes compared.
// It skips tests of more than maxCompared writes.
func compareWithSimulate(t *testing.T, s *suite, i int) (compared int) {
	t.Helper()
	writes := 0
	for _, w := range s.steps[i] {
		writes += w.objects * w.times
	}
	if writes > maxCompared {
		return 0
	}
	var log strings.Builder
	var failed error
	for m := range stepWrites(s.steps[i], &failed) {
		log.WriteString(auditLine(t, m))
	}
	if failed != nil {
		t.Fatal(failed)
	}
	made, err := simulate.Generate("made", stepWrites(s.steps[i], &failed))
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	read, err := simulate.Read(t.Context(), []simulate.Source{simulate.NewSource("audit.log", strings.NewReader(log.String()))}, simulate.Exempt{})
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var results [2]*simulate.Result
	var decisions [2][]simulate.Decision
	for n, trace := range []*simulate.Trace{made, read} {
		results[n], err = trace.Run(t.Context(), simulate.Options{
			Rules:   simulate.Rules{Cluster: s.rules.Cluster, Namespaces: s.rules.KnownNamespaces()},
			Decided: func(d simulate.Decision) { d.Line = 0; decisions[n] = append(decisions[n], d) },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(decisions[1], decisions[0]); diff != "" {
		t.Errorf("%s: %s: decisions from the audit log (-) and the test (+) differ:\n%s", filepath.Base(s.doc.File), s.tests[i].Name, diff)
	}
	if diff := cmp.Diff(results[1].EtcdWrites, results[0].EtcdWrites); diff != "" {
		t.Errorf("%s: %s: writes to etcd from the audit log (-) and the test (+) differ:\n%s", filepath.Base(s.doc.File), s.tests[i].Name, diff)
	}
	return len(decisions[0])
}

// TestDefaultUserGroups checks the default user and groups, which conditions can use.
func TestDefaultUserGroups(t *testing.T) {
	for user, want := range map[string][]string{
		"":                              {"system:serviceaccount:shop:default", "system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
		"system:serviceaccount:bank:op": {"system:serviceaccount:bank:op", "system:serviceaccounts", "system:serviceaccounts:bank", "system:authenticated"},
		"system:node:n1":                {"system:node:n1", "system:nodes", "system:authenticated"},
		"jane":                          {"jane", "system:authenticated"},
	} {
		w := &stepWriter{}
		if u := w.userInfo(user, "shop"); !slices.Equal(append([]string{u.Username}, u.Groups...), want) {
			t.Errorf("user %q becomes %+v, want %v", user, u, want)
		}
	}
	w := &stepWriter{groups: []string{"friends"}}
	if u := w.userInfo("jane", "shop"); !slices.Equal(u.Groups, []string{"friends"}) {
		t.Errorf("groups %v, want those of the step", u.Groups)
	}
}
