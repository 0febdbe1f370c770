package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
)

// decisionFunc is an Observer of decisions only.
type decisionFunc func(admission.DecidedWrite)

func (decisionFunc) ObserveReview(string, admission.Outcome, time.Duration) {}

func (f decisionFunc) ObserveDecision(d admission.DecidedWrite) { f(d) }

// recordDecisions records the decisions that a Gate passes to its Observer, one line each.
func recordDecisions(r *rig) *[]string {
	made := &[]string{}
	r.gate.Observer = decisionFunc(func(d admission.DecidedWrite) {
		line := fmt.Sprintf("%s: %s %s", d.Rule.Name, d.Verdict, d.Request.Object.Name)
		if d.Audited {
			line += ", audited"
		}
		if d.Bucket != "" {
			line += ", " + d.Bucket
		}
		*made = append(*made, line)
	})
	return made
}

func TestEachDecisionIsObservedOnce(t *testing.T) {
	t.Parallel()
	own := func(quotas ...*policy.Quota) *appliedRules {
		return namedPolicy("own", func(p *appliedRules) {
			spamFilterBurst(3)(p)
			p.quotas = quotas
		})
	}
	free := func(quotas ...*policy.Quota) *appliedRules {
		return namedPolicy("free", func(p *appliedRules) { p.Merge.Enabled, p.SpamFilter.Enabled, p.quotas = false, false, quotas })
	}
	beside := func(p *appliedRules, audited *appliedRules) *appliedRules {
		p.earlierPolicies = []*policy.Policy{audited.addAudited()}
		return p
	}
	auditedFloor := twoPerMinute("new")
	auditedFloor.Mode = policy.Audit
	oneFor := func(name string) *appliedRules { return namedPolicy(name, spamFilterBurst(1)) }
	other := func(n int) detail { return message(fmt.Sprint("other ", n)) }
	three := []action{create("a"), create("b", other(1)), create("c", other(2))}
	for says, tt := range map[string]struct {
		applies *appliedRules
		do      []action
		want    []string
	}{
		"a CREATE that is merged, in either phase": {
			own(), []action{create("a"), create("b"), validate("c")}, []string{"own: admit a", "own: merge b", "own: merge c"},
		},
		"a CREATE that its policy drops": {
			namedPolicy("brake", func(p *appliedRules) { p.Action = policy.Drop }),
			[]action{create("a")}, []string{"brake: drop a"},
		},
		"a CREATE over the spam filter": {
			oneFor("own"), []action{create("a"), create("b", other(1))},
			[]string{"own: admit a", "own: drop b, spam filter"},
		},
		"a CREATE over a quota, as the quota's": {
			own(quota("wide", limit(100, 1, time.Second)), twoPerMinute("floor")), three,
			[]string{"own: admit a", "own: admit b", "floor: drop c, all"},
		},
		"an UPDATE": {
			own(), []action{create("a"), update("a", nil, details{count(2)})}, []string{"own: admit a", "own: merge a"},
		},
		"what an unavailable store denies": {
			own(), []action{func(r *rig) string { r.gate.Store = denyingStore{}; return create("a")(r) }}, []string{"own: deny a"},
		},
		"nothing that is ignored, undecided or a dry run": {
			beside(own(), oneFor("new")),
			[]action{create("a", dryRun), create("a", kind("", "Pod")), create(""), create("a/b"), sendUndecided()}, nil,
		},
		"what an audited policy would do, once more": {
			beside(free(), oneFor("new")),
			[]action{create("a"), create("b"), create("c", other(1)), update("a", nil, details{withLabel("x")})},
			[]string{
				"new: admit a, audited", "free: admit a",
				"new: merge b, audited", "free: admit b",
				"new: drop c, audited, spam filter", "free: admit c",
				"new: admit a, audited", "free: admit a",
			},
		},
		"what a quota in force refuses an audited policy too, as the quota's": {
			beside(own(twoPerMinute("floor")), namedPolicy("new", func(*appliedRules) {})), three,
			[]string{
				"new: admit a, audited", "own: admit a", "new: admit b, audited", "own: admit b",
				"floor: drop c, audited, all", "floor: drop c, all",
			},
		},
		"what an audited quota would refuse, as the quota's": {
			own(auditedFloor), three,
			[]string{
				"own: admit a, audited", "own: admit a", "own: admit b, audited", "own: admit b",
				"new: drop c, audited, all", "own: admit c",
			},
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.applies)
			made := recordDecisions(r)
			for _, do := range tt.do {
				if _, warning, ok := strings.Cut(do(r), ", warning: "); ok {
					*made = append(*made, warning)
				}
			}
			if !slices.Equal(*made, tt.want) {
				t.Errorf("got decisions %q,\nwant %q", *made, tt.want)
			}
		})
	}
}

func TestDecisionHasEventFields(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	var made []string
	r.gate.Observer = decisionFunc(func(d admission.DecidedWrite) {
		made = append(made, fmt.Sprintf("%+v %s %s", d.Source, d.Object, d.Object.UID))
	})
	create("a")(r)
	create("b", viaEventsRecorder, aboutOtherNamespace)(r)
	create("c", changeEvent(func(e *corev1.Event) { e.Source = corev1.EventSource{Host: "node-2"} }))(r)
	want := []string{
		"{Component:kubelet Host:node-1} default/Pod/web web-uid",
		"{Component:kubelet Host:node-1} default/Namespace/default ",
		"{Component:unknown Host:node-2} default/Pod/web web-uid",
	}
	if !slices.Equal(made, want) {
		t.Errorf("%q,\nwant %q", made, want)
	}
}

// denyingStore is an unavailable store, with a quota that has onStoreFailure: Deny.
type denyingStore struct{}

func (denyingStore) Decide(context.Context, time.Time, store.Write, store.Limits) (store.Decision, error) {
	return store.Decision{Verdict: store.Deny, RefusedBy: &store.Bucket{Policy: "quota"}}, nil
}

// twoPerMinute returns a quota of two Events a minute.
func twoPerMinute(name string) *policy.Quota { return quota(name, limit(2, 1, time.Minute)) }

// TestUnknownNamespaceIsNotAnEvaluationError checks that a namespace that is not known yet is neither logged nor passed on as
// an error, because no policy or Event causes it. Matches that depend on the namespace are still unknown.
func TestUnknownNamespaceIsNotAnEvaluationError(t *testing.T) {
	t.Parallel()
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, defaults())
	logged := 0
	r.gate.Log = funcr.New(func(string, string) { logged++ }, funcr.Options{})
	for says, test := range map[string]struct {
		match  v1alpha1.ClusterMatch
		failed bool
	}{
		"a selector":                    {match: v1alpha1.ClusterMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}},
		"a condition of the namespace":  {match: matchCondition("namespaceObject.metadata.annotations['team'] == 'a'")},
		"a condition that always fails": {match: matchCondition("event.metadata.labels['none'] == 'a'"), failed: true},
	} {
		q := &v1alpha1.ClusterEventQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
		q.Spec.Match, q.Spec.Limits = test.match, []v1alpha1.Limit{{Name: "all", Burst: 1, Tokens: 1}}
		made, err := compiler.Compile(q)
		if err != nil {
			t.Fatal(err)
		}
		r.gate.Policies = policy.NewCurrent(policy.NewSet(policy.Default(), made, nil))
		var decided admission.DecidedWrite
		r.gate.Observer = decisionFunc(func(d admission.DecidedWrite) { decided = d })
		logged = 0
		create("a", message(says))(r)
		if g := r.gate.Policies.Resolve(t.Context(), "default", &corev1.Event{}, &policy.Request{}); !g.HasQuotas() {
			t.Errorf("%s: no quota limits", says)
		}
		if failed := len(decided.Errors) > 0; failed != test.failed || failed != (logged > 0) {
			t.Errorf("%s: errors %v, %d lines logged", says, decided.Errors, logged)
		}
	}
}

func matchCondition(expression string) v1alpha1.ClusterMatch {
	return v1alpha1.ClusterMatch{Conditions: []v1alpha1.MatchCondition{{Name: "c", Expression: expression}}}
}
