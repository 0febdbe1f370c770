package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
)

// onDecision is a Recorder that hears of writes only.
type onDecision func(admission.Decided)

func (onDecision) Reviewed(string, admission.Outcome, time.Duration) {}

func (f onDecision) Decided(d admission.Decided) { f(d) }

// decisions keeps what a Gate passes on, each as one line.
func decisions(r *rig) *[]string {
	made := &[]string{}
	r.gate.Recorder = onDecision(func(d admission.Decided) {
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

func TestEachDecisionIsPassedOnOnce(t *testing.T) {
	t.Parallel()
	own := func(quotas ...*policy.Quota) *applied {
		return named("own", func(p *applied) {
			p.SpamFilter.Burst, p.SpamFilter.ReservePerReason, p.quotas = 3, 0, quotas
		})
	}
	beside := func(p *applied, audited *applied) *applied {
		p.before = []*policy.Policy{audited.audited()}
		return p
	}
	auditedFloor := floor("new")
	auditedFloor.Mode = policy.Audit
	oneFor := func(name string) *applied {
		return named(name, func(p *applied) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 1, 0 })
	}
	other := func(n int) detail { return message(fmt.Sprint("other ", n)) }
	for says, tt := range map[string]struct {
		applies *applied
		do      []action
		want    []string
	}{
		"a CREATE that is stored": {
			own(), []action{create("a")}, []string{"own: admit a"},
		},
		"a CREATE in the validating phase": {
			own(), []action{validate("a"), validate("b")}, []string{"own: admit a", "own: merge b"},
		},
		"a CREATE that is merged": {
			own(), []action{create("a"), create("b")}, []string{"own: admit a", "own: merge b"},
		},
		"a CREATE that its policy drops": {
			named("brake", func(p *applied) { p.Action = policy.Drop }),
			[]action{create("a")}, []string{"brake: drop a"},
		},
		"a CREATE over the spam filter": {
			oneFor("own"), []action{create("a"), create("b", other(1))},
			[]string{"own: admit a", "own: drop b, spam filter"},
		},
		"a CREATE over a quota, as the quota's": {
			own(quota("wide", limit(100, 1, time.Second)), floor("floor")),
			[]action{create("a"), create("b", other(1)), create("c", other(2))},
			[]string{"own: admit a", "own: admit b", "floor: drop c, all"},
		},
		"an UPDATE": {
			own(),
			[]action{create("a"), update("a", nil, details{count(2)})}, []string{"own: admit a", "own: merge a"},
		},
		"nothing that is ignored, undecided or a dry run": {
			beside(own(), oneFor("new")),
			[]action{create("a", dryRun), create("a", kind("", "Pod")), create(""), create("a/b"), undecided()}, nil,
		},
		"what an audited policy would do, once more": {
			beside(named("free", func(p *applied) { p.Action = policy.Exempt }), oneFor("new")),
			[]action{create("a"), create("b"), create("c", other(1)), update("a", nil, details{labelled("x")})},
			[]string{
				"new: admit a, audited", "free: admit a", "new: merge b, audited", "free: admit b",
				"new: drop c, audited, spam filter", "free: admit c", "new: admit a, audited", "free: admit a",
			},
		},
		"what a quota in force refuses an audited policy too, as the quota's": {
			beside(own(floor("floor")), named("new", func(*applied) {})),
			[]action{create("a"), create("b", other(1)), create("c", other(2))},
			[]string{
				"new: admit a, audited", "own: admit a", "new: admit b, audited", "own: admit b",
				"floor: drop c, audited, all", "floor: drop c, all",
			},
		},
		"what an audited quota would refuse, as the quota's": {
			own(auditedFloor),
			[]action{create("a"), create("b", other(1)), create("c", other(2))},
			[]string{
				"own: admit a, audited", "own: admit a", "own: admit b, audited", "own: admit b",
				"new: drop c, audited, all", "own: admit c",
			},
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.applies)
			audit := memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
			r.gate.Audit = audit
			made := decisions(r)
			for _, do := range tt.do {
				do(r)
			}
			if !slices.Equal(*made, tt.want) {
				t.Errorf("passed on %q,\nwant %q", *made, tt.want)
			}
		})
	}
}

func TestWhatAnUnavailableStoreDeniesIsPassedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	r.gate.Store = denies{}
	made := decisions(r)
	create("a")(r)
	if want := []string{"default: deny a"}; !slices.Equal(*made, want) {
		t.Errorf("passed on %q, want %q", *made, want)
	}
}

func TestADecisionSaysWhatTheWriterSays(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	var made []string
	r.gate.Recorder = onDecision(func(d admission.Decided) {
		made = append(made, fmt.Sprintf("%+v %s %s", d.Source, d.Object, d.Object.UID))
	})
	create("a")(r)
	create("b", modern, elsewhere)(r)
	create("c", event(func(e *corev1.Event) { e.Source = corev1.EventSource{Host: "node-2"} }))(r)
	want := []string{
		"{Component:kubelet Host:node-1} default/Pod/web web-uid",
		"{Component:kubelet Host:node-1} default/Namespace/default ",
		"{Component:unknown Host:node-2} default/Pod/web web-uid",
	}
	if !slices.Equal(made, want) {
		t.Errorf("%q,\nwant %q", made, want)
	}
}

func TestPassingADecisionOnAllocatesNothing(t *testing.T) {
	r := newRig(t, named("own", func(p *applied) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 1, 0 }))
	create("first")(r)
	request := newRequest(r.now, "a", details{message("other")})
	decide := func() {
		if answer := r.gate.Decide(t.Context(), r.gate.Validate, request); answer.Response.Allowed {
			t.Error("not refused")
		}
	}
	testing.AllocsPerRun(1000, decide) // so that the moment has as many digits as later
	silent := testing.AllocsPerRun(1000, decide)
	heard := 0
	r.gate.Recorder = onDecision(func(d admission.Decided) {
		if d.Bucket == "spam filter" {
			heard++
		}
	})
	if with := testing.AllocsPerRun(1000, decide); with > silent || heard == 0 {
		t.Errorf("%v allocations, %v without a Recorder, which was called %d times", with, silent, heard)
	}
}

// denies is a store that is unavailable, under a quota that denies Events then.
type denies struct{}

func (denies) Decide(context.Context, time.Time, store.Write, store.Limits) (store.Decision, error) {
	return store.Decision{Verdict: store.Deny, Empty: &store.Bucket{Policy: "quota"}}, nil
}

// floor is a quota that lets two Events a minute pass.
func floor(name string) *policy.Quota { return quota(name, limit(2, 1, time.Minute)) }

func TestActions(t *testing.T) {
	t.Parallel()
	const dropped = `drop 429 TooManyRequests: brake drops it`
	const empty = `drop 429 TooManyRequests: limit "all" of floor is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`
	under := func(action policy.Action, quotas ...*policy.Quota) *applied {
		return named("brake", func(p *applied) { p.Action, p.quotas = action, quotas })
	}
	// A policy that neither merges nor limits leaves it to quotas.
	free := named("free", func(p *applied) {
		p.Merge.Enabled, p.SpamFilter.Enabled, p.quotas = false, false, []*policy.Quota{floor("floor")}
	})
	for name, tt := range map[string]struct {
		applies *applied
		steps   []step
	}{
		"Drop refuses each CREATE": {
			under(policy.Drop),
			[]step{{0, create("a"), dropped}, {time.Hour, create("b", message("2")), dropped}},
		},
		"Drop merges what a recorder says of a stored Event, and nothing else": {
			under(policy.Drop),
			[]step{
				{0, update("a", details{}, details{count(2)}), "merge 409 AlreadyExists: merged into a, 2 occurrences so far"},
				{0, update("a", details{}, details{labelled("x")}), dropped},
			},
		},
		"Drop does not look at quotas": {
			under(policy.Drop, floor("floor")),
			[]step{{0, create("a"), dropped}, {0, create("b"), dropped}, {0, create("c"), dropped}},
		},
		"Exempt merges nothing": {
			under(policy.Exempt),
			[]step{{0, create("a"), "admit"}, {0, create("b"), "admit"}, {0, update("a", details{}, details{count(2)}), "admit"}, {0, update("a", details{count(2)}, details{count(3)}), "admit"}},
		},
		"without merging, a recorder counts while a quota has tokens": {
			free,
			[]step{
				{0, update("a", details{}, details{count(2)}), "admit"},
				{0, update("a", details{count(2)}, details{count(3)}), "admit"},
				{0, update("a", details{count(3)}, details{count(4)}), "merge 409 AlreadyExists: merged into a, 4 occurrences so far"},
			},
		},
		"without merging and a spam filter, a quota limits": {
			free,
			[]step{{0, create("a"), "admit"}, {0, create("b"), "admit"}, {0, create("c"), empty}, {time.Minute, create("d"), "admit"}},
		},
		"the quotas of policies that do not govern apply": {
			under(policy.Limit, floor("floor")),
			[]step{{0, create("a"), "admit"}, {0, create("b", message("2")), "admit"}, {0, create("c", message("3")), empty}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.applies)
			for i, step := range tt.steps {
				r.now = epoch().Add(step.at)
				if got := step.do(r); got != step.want {
					t.Errorf("step %d: %q, want %q", i+1, got, step.want)
				}
			}
		})
	}
}

func TestAnAuditedPolicyOnlySaysWhatItWouldDo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		audit func(*applied)
		want  []string // of a, its repeat b, and c, which is another one
	}{
		"one that limits": {
			func(p *applied) {
				p.before = append(p.before, named("new", func(p *applied) {
					p.AuditWarnings, p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = true, 1, 0
				}).audited())
			},
			[]string{
				"", `eventquota: new, which is audited, would merge this Event`,
				`eventquota: new, which is audited, would drop this Event`,
			},
		},
		"one that is not to be heard of": {
			func(p *applied) {
				p.before = append(p.before, named("new", func(p *applied) { p.Action = policy.Drop }).audited())
			},
			[]string{"", "", ""},
		},
		"quotas": {
			func(p *applied) {
				q := floor("new")
				q.Mode, q.AuditWarnings = policy.Audit, true
				p.quotas = append(p.quotas, q)
			},
			[]string{"", "", `eventquota: new, which is audited, would drop this Event`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := named("free", func(p *applied) { p.Merge.Enabled, p.SpamFilter.Enabled = false, false })
			tt.audit(p)
			r := newRig(t, p)
			audit := memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
			r.gate.Audit = audit
			counted := 0
			r.gate.Recorder = onDecision(func(d admission.Decided) {
				if d.Audited {
					counted++
				}
			})
			for i, request := range []*admission.Request{
				newRequest(r.now, "a", nil), newRequest(r.now, "b", nil), newRequest(r.now, "c", details{message("2")}),
			} {
				answer := r.gate.Decide(t.Context(), r.gate.Mutate, request)
				if !answer.Response.Allowed {
					t.Errorf("Event %d was refused: %v", i, answer.Response.Result)
				}
				if got := strings.Join(answer.Response.Warnings, "; "); got != tt.want[i] {
					t.Errorf("Event %d: warning %q, want %q", i, got, tt.want[i])
				}
			}
			if counted != len(tt.want) {
				t.Errorf("counted %d, want %d", counted, len(tt.want))
			}
		})
	}
}
