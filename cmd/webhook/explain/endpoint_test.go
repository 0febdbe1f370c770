package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// unreachableStore is a store without a connection.
type unreachableStore struct{ store.Store }

func (unreachableStore) Peek(context.Context, []store.Key, []store.Key) (engine.Snapshot, error) {
	return engine.Snapshot{}, errors.New("no connection")
}

// The paths of questions: about all namespaces, and about storm only.
const allPath, stormPath = "/explain", "/namespaces/storm/explain"

// post sends a body to a path of the replica, and returns the status and body of the answer.
func (r *explainRig) post(path, body string) (int, string) {
	w := httptest.NewRecorder()
	r.endpoint.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// ask asks a question at a path of the replica. No answer has a notice twice.
func (r *explainRig) ask(path string, q question) (a answer) {
	r.t.Helper()
	content, err := json.Marshal(q)
	if err != nil {
		r.t.Fatal(err)
	}
	status, body := r.post(path, string(content))
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		r.t.Fatalf("%s: status %d, body %s, error %v", path, status, body, err)
	}
	seen := map[string]bool{}
	for _, n := range a.Dropped {
		if seen[n.Name] {
			r.t.Errorf("%s: the answer has the notice of %+v twice", path, n)
		}
		seen[n.Name] = true
	}
	return a
}

func TestBadQuestionsReturnOneError(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, "", "memory", newMemory(t))
	event := func(namespace, objectNamespace string) string {
		return `{"metadata": {"namespace": "` + namespace + `"}, "involvedObject": {"kind": "Pod", "namespace": "` + objectNamespace + `", "name": "web-0"}}`
	}
	storm := event("storm", "storm")
	ask := func(events ...string) string { return `{"samples": [` + strings.Join(events, ", ") + `]}` }
	many := func(n int, one string) string { return strings.Repeat(", "+one, n)[2:] }
	hostile := event("storm", "\\u001b[2J\\n"+strings.Repeat("x", 1000))
	for name, test := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"one Event":                                {stormPath, ask(storm), 200, ""},
		"the maximum of Events":                    {stormPath, ask(many(64, storm)), 200, ""},
		"one Event too many":                       {stormPath, ask(many(65, storm)), 400, "samples: must have 1 to 64 items"},
		"no Event":                                 {stormPath, ask(), 400, "samples: must have 1 to 64 items"},
		"no body":                                  {stormPath, "", 400, `the body must be a JSON object with "samples"`},
		"no JSON":                                  {stormPath, "events", 400, `the body must be a JSON object with "samples"`},
		"another JSON":                             {stormPath, "[]", 400, `the body must be a JSON object with "samples"`},
		"nothing as an Event":                      {stormPath, ask("null"), 400, "samples[0].metadata.namespace: must be set"},
		"a value of the wrong type":                {stormPath, ask(storm, `{"count": "many"}`), 400, "/samples/1/count: has a value of the wrong type or form"},
		"a time that is none":                      {stormPath, ask(`{"eventTime": "soon"}`), 400, "/samples/0/eventTime: has a value of the wrong type or form"},
		"JSON that is too deep":                    {stormPath, `{"deep": ` + strings.Repeat("[", 20000), 400, `the body must be a JSON object with "samples"`},
		"a body that is too long":                  {stormPath, ask(storm) + strings.Repeat(" ", maxQuestionBytes), 413, "the body must have at most 262144 bytes"},
		"the maximum of writers":                   {stormPath, `{"samples": [` + storm + `], "writers": [` + many(128, `"a"`) + `]}`, 200, ""},
		"one writer too many":                      {stormPath, `{"samples": [` + many(64, storm) + `], "writers": ["a", "b", "c"]}`, 400, "writers: must have at most 2 items for 64 samples, not 3"},
		"a writer without a name":                  {stormPath, `{"samples": [` + storm + `], "writers": ["a", ""]}`, 400, "writers[1]: must be the name of a user, of at most 1024 bytes"},
		"a writer with too long a name":            {stormPath, `{"samples": [` + storm + `], "writers": ["` + strings.Repeat("a", 1025) + `"]}`, 400, "writers[0]: must be the name of a user, of at most 1024 bytes"},
		"query parameters":                         {stormPath + "?key=x", ask(storm), 400, "explain: takes no query parameters"},
		"an Event of another namespace":            {stormPath, ask(storm, event("calm", "calm")), 400, `samples[1].metadata.namespace: must be storm, not "calm"`},
		"an Event without a namespace":             {stormPath, ask(event("", "storm")), 400, "samples[0].metadata.namespace: must be set"},
		"an object of another namespace":           {stormPath, ask(event("storm", "calm")), 400, `samples[0].involvedObject.namespace: must be storm, not "calm"`},
		"an object without a namespace":            {stormPath, ask(event("storm", "")), 400, `samples[0].involvedObject.namespace: must be storm, not ""`},
		"an object of a hostile namespace":         {stormPath, ask(hostile), 400, `samples[0].involvedObject.namespace: must be storm, not "\x1b[2J\n`},
		"to an administrator, such an object":      {allPath, ask(event("storm", "")), 200, ""},
		"to an administrator, any namespace":       {allPath, ask(event("calm", "storm")), 200, ""},
		"to an administrator, two namespaces":      {allPath, ask(storm, event("calm", "calm")), 400, `samples[1].metadata.namespace: must be storm, not "calm"`},
		"to an administrator, no namespace at all": {allPath, ask(event("", "")), 400, "samples[0].metadata.namespace: must be set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := r.post(test.path, test.body)
			if status != test.status || !strings.Contains(body, test.want) || test.want != "" && strings.Count(body, "\n") != 1 || len(body) > 5000 {
				t.Errorf("status %d, body %q, want %d, %q", status, body, test.status, test.want)
			}
		})
	}
}

// TestUnreadBodyEndsConnection has a body that the replica does not read. The read deadline would end the context of a later request.
func TestUnreadBodyEndsConnection(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, "", "memory", newMemory(t))
	for query, ends := range map[string]bool{"": false, "?key=x": true} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.endpoint.URL+stormPath+query, strings.NewReader("[]"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := r.endpoint.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest || response.Close != ends {
			t.Errorf("%q: status %d, and the connection ends: %t, want 400 and %t", query, response.StatusCode, response.Close, ends)
		}
	}
}

// TestAnswersOmitEventMessages checks that answers contain no message of an Event. An account that may read metrics need not have the
// right to read Events.
func TestAnswersOmitEventMessages(t *testing.T) {
	t.Parallel()
	decides := newMemory(t)
	r := newExplainRig(t, stormPolicies, "memory", decides).storm()
	sample := r.events[4]
	group := admission.GroupKey(&sample, "system:serviceaccount:kube-system:noisy-operator")
	state, err := decides.Peek(t.Context(), []store.Key{group}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(state.Groups[group].Append(nil), []byte("reconciled")) {
		t.Fatal("the store has no message of the aggregate")
	}
	content, err := json.Marshal(question{Samples: []corev1.Event{sample}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{allPath, stormPath} {
		if _, body := r.post(path, string(content)); strings.Contains(body, "reconciled") || !strings.Contains(body, "Reconciled") {
			t.Errorf("%s: answer %s, want the reason but not the message", path, body)
		}
	}
}

// sharedPolicies add quotas that several namespaces use, and a condition that fails for each Event.
const sharedPolicies = stormPolicies + `---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: shared}
spec:
  match: {reasons: [Shared]}
  notices: Combined
  limits:
  - {name: all, burst: 10, tokens: 1, interval: 1h}
  - {name: user, per: [User], burst: 9, tokens: 1, interval: 1h}
  - {name: controller, per: [Controller], burst: 8, tokens: 1, interval: 1h}
  - {name: own, per: [Namespace, Reason], burst: 7, tokens: 1, interval: 1h}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: secret-condition}
spec:
  tier: Admin
  action: Drop
  match: {conditions: [{name: fails, expression: 'event.metadata.annotations["team-of-others"] == "x"'}]}
`

// TestTenantLearnsNothingOfOthers asks as users of namespace storm before and after a storm in another namespace. That storm is by the same
// sources and writers, about objects of the same names. The answers must be equal.
func TestTenantLearnsNothingOfOthers(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, sharedPolicies, "memory", newMemory(t)).storm()
	q := question{Writers: []string{"system:serviceaccount:kube-system:flooder", "system:node:node-1"}}
	for _, e := range r.events[:10] {
		e.Reason = "Shared"
		q.Samples = append(q.Samples, e)
		e.Source.Component, e.Reason = "flooder", "Noise"
		q.Samples = append(q.Samples, e)
	}
	before, all := r.ask(stormPath, q), r.ask(allPath, q)
	r.user = q.Writers[0]
	for i := range 50 {
		r.writeTo("calm", "flooder", "Normal", "Shared", strings.Repeat("x", i))
		r.writeTo("calm", "kubelet", "Warning", "Shared", strings.Repeat("y", i))
	}
	if diff := cmp.Diff(before, r.ask(stormPath, q), cmp.AllowUnexported(answeredSource{}, source{}, bucket{})); diff != "" {
		t.Errorf("a storm in another namespace changes what users of storm see (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(all, r.ask(allPath, q), cmp.AllowUnexported(answeredSource{}, source{}, bucket{})); diff == "" {
		t.Error("an administrator sees nothing of the storm in another namespace")
	}
	content, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{`"bucket":"all"`, `"bucket":"user"`, `"bucket":"controller"`, "secret-condition", "team-of-others", "calm"} {
		if bytes.Contains(content, []byte(hidden)) {
			t.Errorf("users of storm see %s: %s", hidden, content)
		}
	}
	for _, shown := range []string{`"bucket":"own"`, `"bucket":"namespace"`, `"bucket":"spam filter"`, "EventPolicy storm/silence", "quotas that other namespaces use too"} {
		if !bytes.Contains(content, []byte(shown)) {
			t.Errorf("users of storm do not see %s: %s", shown, content)
		}
	}
	if content, err = json.Marshal(all); err != nil || !bytes.Contains(content, []byte("team-of-others")) || bytes.Contains(content, []byte("other namespaces use too")) {
		t.Errorf("error %v, answer to an administrator %s, want the error of the condition, and no note that something is hidden", err, content)
	}
}

func TestTenantGetsNoDetailsOfFailures(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, "", "redis", unreachableStore{})
	const body = `{"samples": [{"metadata": {"namespace": "storm"}, "involvedObject": {"namespace": "storm"}}]}`
	for path, want := range map[string]string{allPath: "store redis cannot be read: no connection\n", stormPath: "the replica cannot answer now: try again\n"} {
		if status, got := r.post(path, body); status != http.StatusServiceUnavailable || got != want {
			t.Errorf("%s: status %d, body %q, want 503, %q", path, status, got, want)
		}
	}
}

// countingStore counts the registers that are read.
type countingStore struct {
	peekStore

	groups *int
}

func (s countingStore) Peek(ctx context.Context, groups, buckets []store.Key) (engine.Snapshot, error) {
	*s.groups += len(groups)
	return s.peekStore.Peek(ctx, groups, buckets)
}

// TestReadsAreBounded asks the question that needs most registers, with limits that no installation has.
func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	policies := "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: many}\nspec:\n  limits:\n"
	for i := range 8 {
		policies += fmt.Sprintf("  - {name: limit-%d, per: [Namespace, User, Reason], burst: 5, tokens: 1, interval: 1h}\n", i)
	}
	read := 0
	r := newExplainRig(t, policies, "redis", countingStore{newMemory(t), &read})
	r.write("operator", "Normal", "Synced", "synced")
	var q question
	for i := range maxSamples {
		e := r.events[0]
		e.Reason, e.Source.Component = fmt.Sprint("Reason", i), fmt.Sprint("source", i)
		q.Samples = append(q.Samples, e)
	}
	a := r.ask(stormPath, q)
	if note := "too many buckets limit these Events"; read > maxRegisters+maxEvaluations || len(a.Sources) != maxSamples || !strings.Contains(strings.Join(a.Notes, " "), note) {
		t.Errorf("%d registers were read for %d sources, want at most %d for %d, with a note", read, len(a.Sources), maxRegisters+maxEvaluations, maxSamples)
	}
}

// stuckStore is a store that does not answer before the channel is closed.
type stuckStore struct {
	unreachableStore

	asked, release chan struct{}
}

func (s stuckStore) Peek(context.Context, []store.Key, []store.Key) (engine.Snapshot, error) {
	s.asked <- struct{}{}
	<-s.release
	return engine.Snapshot{}, nil
}

// TestQuestionsAreAnsweredInTurn checks that other questions do not get to the store, and that one whose body does not end takes no
// turn.
func TestQuestionsAreAnsweredInTurn(t *testing.T) {
	t.Parallel()
	stuck := stuckStore{asked: make(chan struct{}, 2), release: make(chan struct{})}
	r := newExplainRig(t, "", "redis", stuck)
	endless, end := io.Pipe()
	question := func(ctx context.Context, body io.Reader) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.endpoint.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, allPath, body))
		return w
	}
	const body = `{"samples": [{"metadata": {"namespace": "storm"}}]}`
	answered := make(chan *httptest.ResponseRecorder, 2)
	go func() { answered <- question(t.Context(), endless) }()
	if _, err := end.Write([]byte(body[:10])); err != nil { // the handler reads the body
		t.Fatal(err)
	}
	go func() { answered <- question(t.Context(), strings.NewReader(body)) }()
	<-stuck.asked
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // if the turn were free, chance would decide
		if w := question(impatient, strings.NewReader(body)); w.Code != http.StatusServiceUnavailable || w.Body.String() != "the replica is busy with other questions: try again\n" {
			t.Fatalf("another question: status %d, body %q, want 503", w.Code, w.Body)
		}
	}
	close(stuck.release)
	if w := <-answered; w.Code != http.StatusOK {
		t.Errorf("the first question: status %d, body %s, want 200", w.Code, w.Body)
	}
	_ = end.Close() // never fails
	if w := <-answered; w.Code != http.StatusBadRequest {
		t.Errorf("a body that ends early: status %d, body %s, want 400", w.Code, w.Body)
	}
	if len(stuck.asked) > 0 {
		t.Error("another question got to the store")
	}
}
