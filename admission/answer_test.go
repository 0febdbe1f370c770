package admission_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	mergedConflict  = "AlreadyExists: merged into "
	mergedOtherwise = "EventMerged: merged into "
)

func TestMergeAnswers(t *testing.T) {
	t.Parallel()
	runScenarios(t, []scenario{
		{name: "a recorder of core/v1 gets AlreadyExists, which it takes quietly", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + mergedConflict + "a, 2 occurrences so far"},
			{time.Second, create("c", count(5)), "merge 409 " + mergedConflict + "a, 7 occurrences so far"},
			{time.Second, update("a", details{}, details{count(2)}), "merge 409 " + mergedConflict + "a, 8 occurrences so far"},
		}},
		{name: "a recorder of events.k8s.io gets AlreadyExists where it does not try again", steps: []step{
			{0, create("a", viaEventsRecorder), "admit"},
			{0, create("b", viaEventsRecorder), "merge 409 " + mergedConflict + "a, 2 occurrences so far"},
		}},
		{name: "a recorder of events.k8s.io gets EventMerged where AlreadyExists would make it try again", steps: []step{
			{0, create("a", viaEventsRecorder), "admit"},
			{0, create("b", series(2)), "merge 400 " + mergedOtherwise + "a, 3 occurrences so far"},
			{0, update("a", details{viaEventsRecorder}, details{series(2)}), "merge 400 " + mergedOtherwise + "a, 4 occurrences so far"},
		}},
		{name: "a series written through core/v1 is answered as core/v1", steps: []step{
			{0, create("a", series(2), viaCoreAPI), "admit"},
			{0, create("b", series(2), viaCoreAPI), "merge 409 " + mergedConflict + "a, 4 occurrences so far"},
		}},
		{name: "anyone who asks for a generated name gets EventMerged: with AlreadyExists the API server tries other names", steps: []step{
			{0, validate("web.x7k2p", withGenerateName("web.")), "admit"},
			{0, validate("web.q4m9s", withGenerateName("web.")), "merge 400 " + mergedOtherwise + "web.x7k2p, 2 occurrences so far"},
			{0, create("", withGenerateName("web.")), "merge 400 " + mergedOtherwise + "web.x7k2p, 3 occurrences so far"},
			{0, update("web.x7k2p", details{withGenerateName("web.")}, details{withGenerateName("web."), count(2)}), "merge 409 " + mergedConflict + "web.x7k2p, 4 occurrences so far"},
		}},
		{name: "similar Events merge into their aggregate", change: func(p *appliedRules) { p.Merge.Threshold = 2 }, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "aggregate, /message = " + combined + "2"},
			{0, create("c", message("3")), "merge 409 " + mergedConflict + "b, 2 occurrences so far"},
			{0, create("d", message("1")), "merge 409 " + mergedConflict + "a, 2 occurrences so far"},
		}},
	})
}

// inTable reports whether a status is one of admission.Refusals.
func inTable(s *metav1.Status) bool {
	return slices.ContainsFunc(asSlice(admission.Refusals()), func(r admission.Refusal) bool { return r.Code == s.Code && r.Reason == s.Reason })
}

// TestEveryRefusalHasRow checks the table of refusals. Each outcome that refuses a write has a row. No row has a code or reason that makes
// a client or the API server send the request again.
func TestEveryRefusalHasRow(t *testing.T) {
	t.Parallel()
	rows := asSlice(admission.Refusals())
	outcomes := []admission.Outcome{admission.Overloaded}
	for v := store.Admit; v <= store.Deny; v++ {
		if !v.Admits() {
			outcomes = append(outcomes, admission.OutcomeOf(v))
		}
	}
	for _, o := range outcomes {
		if !slices.ContainsFunc(rows, func(r admission.Refusal) bool { return r.Outcome == o }) {
			t.Errorf("outcome %q has no row", o)
		}
	}
	for _, r := range rows {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: r.Code, Reason: r.Reason}}
		switch {
		case r.Writes == "":
			t.Errorf("%+v does not say for which writes it is", r)
		case !slices.Contains(outcomes, r.Outcome):
			t.Errorf("%+v is of an outcome that refuses nothing", r)
		case r.Code == http.StatusConflict && apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
		case r.Code == http.StatusBadRequest && apierrors.IsBadRequest(err) && r.Reason != metav1.StatusReasonBadRequest:
		default:
			t.Errorf("%+v: some client sends the request again", r)
		}
	}
}

// TestAnswersComeFromTable checks that no other file of the package makes a status.
func TestAnswersComeFromTable(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	makers := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		switch n := strings.Count(string(content), "metav1.Status{"); {
		case err != nil:
			t.Fatal(err)
		case strings.HasSuffix(file, "_test.go"):
		case file == "answer.go":
			makers = n
		case n > 0:
			t.Errorf("%s makes a status, which only answer.go does", file)
		}
	}
	if makers != 1 {
		t.Errorf("answer.go makes a status in %d places, want 1", makers)
	}
}

func asSlice(rows [6]admission.Refusal) []admission.Refusal { return rows[:] }

func TestDropAnswers(t *testing.T) {
	t.Parallel()
	const dropped, brake = "drop 400 EventDropped: ", "drop 400 EventDropped: brake drops it"
	runScenarios(t, []scenario{
		{name: "a drop names the bucket, the policy and the next token", change: func(p *appliedRules) {
			spamFilterBurst(2)(p)
			p.Name = "night"
		}, steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Minute, create("b", message("2")), "admit"},
			{2 * time.Minute, create("c", message("3")), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 3m0s`},
			{5*time.Minute - 1500*time.Millisecond, create("d", series(7), message("4")), dropped + `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 1.5s`},
			{5 * time.Minute, create("d", message("4")), "admit"},
		}},
		{name: "or the limit and its quota", change: onlyLimits(onePerHour()), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", message("2")), dropped + `limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
		}},
		{name: "a bucket without tokens never has one", change: spamFilterBurst(0), steps: []step{
			{0, create("a"), dropped + `spam filter of the default policy is empty: it never has tokens`},
		}},
		{name: "a policy that drops all names itself, and a recorder counts on", change: func(p *appliedRules) { p.Name, p.Action = "brake", policy.Drop }, steps: []step{
			{0, create("a"), brake},
			{time.Hour, create("b", message("2")), brake},
			{0, update("a", details{}, details{count(2)}), "merge 409 " + mergedConflict + "a, 2 occurrences so far"},
			{0, update("a", details{}, details{withLabel("x")}), brake},
		}},
	})
}

// TestRefusalsQuoteNoClientText checks the exact text of every kind of refusal.
func TestRefusalsQuoteNoClientText(t *testing.T) {
	t.Parallel()
	const secret = "swordfish"
	all := details{
		message(secret), reason(secret), component(secret), aboutPod(secret), user(secret), withLabel(secret), inNamespace(secret),
		changeEvent(func(e *corev1.Event) { e.InvolvedObject.FieldPath, e.Source.Host = secret, secret }),
	}
	limited := namedPolicy("night", spamFilterBurst(1))
	deny := namedPolicy("strict", func(p *appliedRules) { p.addQuota(onePerHour()) })
	for says, tt := range map[string]struct {
		policy *appliedRules
		store  store.Store // nil for one in memory
		writes []details   // all but the last are admitted
		want   string
	}{
		"a merge":      {policy: limited, writes: []details{nil, nil}, want: "merged into a stored Event, 2 occurrences so far"},
		"an empty one": {policy: limited, writes: []details{nil, {message("2" + secret)}}, want: `spam filter of night is empty: next token at 2030-03-01T12:05:00Z, in 5m0s`},
		"a brake":      {policy: namedPolicy("brake", func(p *appliedRules) { p.Action = policy.Drop }), writes: []details{nil}, want: `brake drops it`},
		"no store":     {policy: deny, store: denyingStore{}, writes: []details{nil}, want: `the shared store is unavailable, and quota denies Events then`},
		"no time":      {policy: limited, store: faultyStore(func() error { return errors.New(secret) }), writes: []details{nil, nil, nil}, want: "no decision in time, and the local limit for undecided Events is reached"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.policy)
			if tt.store != nil {
				r.gate.Store = tt.store
			}
			for i, change := range tt.writes {
				request := newRequest(r.now, fmt.Sprint(secret, i), slices.Concat(all, change))
				response := r.gate.Decide(t.Context(), r.gate.Mutate, request).Response
				if last := i == len(tt.writes)-1; response.Allowed == last {
					t.Fatalf("write %d: allowed %t", i, response.Allowed)
				}
				if response.Allowed {
					continue
				}
				if said := fmt.Sprintf("%+v", response); response.Result.Message != tt.want || strings.Contains(said, secret) {
					t.Errorf("says %q, want %q: %s", response.Result.Message, tt.want, said)
				}
			}
		})
	}
}

func TestParseDecisionTimeRejectsInvalid(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1793534400000001).UTC()
	for annotation, want := range map[string]admission.DecisionTime{
		"1793534400000001":            {At: at},
		"1793534400000001+3":          {At: at, Offset: 3},
		"1793534400000001+3600000000": {At: at, Offset: 3600000000},
		"":                            {},
		"now":                         {},
		"1793534400000001.5":          {},
		"1793534400000001+":           {},
		"1793534400000001+-3":         {},
		"1793534400000001+3600000001": {},
		"-1":                          {},
		"9223372036854775807":         {},
		"99999999999999999999":        {},
		"1793534400000001+1+1":        {},
	} {
		if got := admission.ParseDecisionTime(annotation); got != want {
			t.Errorf("%q: %+v, want %+v", annotation, got, want)
		}
	}
}

// TestAuditAnnotationHasDecisionTime decodes answers as the API server does.
func TestAuditAnnotationHasDecisionTime(t *testing.T) {
	t.Parallel()
	h := newTestHandlers(newMemory(t))
	h.gate.Now = func() time.Time { return epoch().Add(1500 * time.Nanosecond) }
	decided := reviewResponse(t, post(t, h.mutate, marshalReview(t, newRequest(epoch(), "a", nil)), longTimeout)).AuditAnnotations
	at := strconv.FormatInt(epoch().UnixMicro()+1, 10)
	if want := map[string]string{admission.AnnotationDecided: at}; !maps.Equal(decided, want) {
		t.Errorf("a decision: audit annotations %v, want %v", decided, want)
	}
	ignored := reviewResponse(t, post(t, h.mutate, marshalReview(t, newRequest(epoch(), "a", details{dryRun})), longTimeout)).AuditAnnotations
	if ignored != nil {
		t.Errorf("a dry run: audit annotations %v, want none", ignored)
	}
}

// decisionTime returns the decision time in the answer to a CREATE.
func (r *rig) decisionTime(request *admission.Request) admission.DecisionTime {
	return r.gate.Decide(r.t.Context(), r.gate.Mutate, request).DecidedAt
}

// TestDecisionTimesKeepDecisionOrder uses a clock that stands still and then goes back, as for a request that others
// overtake. It also has an audited policy with its own store: a write that only this store decides has no decision time.
func TestDecisionTimesKeepDecisionOrder(t *testing.T) {
	t.Parallel()
	audited := func(p *appliedRules) {
		p.earlierPolicies = []*policy.Policy{namedPolicy("new", func(*appliedRules) {}).addAudited()}
	}
	r := newRig(t, namedPolicy("own", audited))
	if _, err := r.gate.AuditStore.Decide(t.Context(), r.now, store.Write{GroupKey: store.KeyOf("a"), Name: "a"}, store.Limits{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []admission.DecisionTime{
		{At: epoch()}, {At: epoch(), Offset: 1}, {At: epoch().Add(-time.Millisecond), Offset: 1002}, {At: epoch().Add(time.Second)},
	} {
		r.now = want.At
		if got := r.decisionTime(newRequest(r.now, "a", nil)); got != want {
			t.Errorf("decision %d: %+v, want %+v", i, got, want)
		}
	}
	r.gate.Policies = namedPolicy("free", func(p *appliedRules) {
		audited(p)
		p.Action = policy.Exempt
	}).current()
	if got := r.decisionTime(newRequest(r.now, "a", nil)); got != (admission.DecisionTime{}) {
		t.Errorf("got decision time %+v if only an audited policy calls a store, want none", got)
	}
}

// TestOutcomeOfVerdict checks OutcomeOf for callers that count verdicts without answers.
func TestOutcomeOfVerdict(t *testing.T) {
	t.Parallel()
	for _, v := range []store.Verdict{store.Admit, store.Aggregate, store.Merge, store.Drop, store.Deny} {
		r := newRig(t, defaults())
		r.gate.Store = fixedStore{Verdict: v}
		a := r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, "a", nil))
		if a.Outcome != admission.OutcomeOf(v) || a.Response.Allowed != v.Admits() {
			t.Errorf("the answer to verdict %v has outcome %q, allowed %v; OutcomeOf says %q", v, a.Outcome, a.Response.Allowed, admission.OutcomeOf(v))
		}
	}
}
