package admission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// applies is Policies that say the same of every Event.
type applies policy.Governing

func (a applies) For(context.Context, string, *corev1.Event, *policy.Request) policy.Governing {
	return policy.Governing(a)
}

// named is the default policy under a name, changed.
func named(name string, change func(*policy.Policy)) *policy.Policy {
	p := policy.Default()
	p.Name = name
	change(&p)
	p = p.Identified()
	return &p
}

// quotaOf lets two Events a minute pass.
func quotaOf(p *policy.Policy) {
	p.Match.Tier = policy.TierAdmin
	p.Quotas = []policy.Quota{{Type: policy.QuotaServer, Burst: 2, Tokens: 1, Interval: time.Minute}}
}

func TestActions(t *testing.T) {
	t.Parallel()
	const dropped = `drop 429 TooManyRequests: policy "brake" drops it`
	const empty = `drop 429 TooManyRequests: Server quota of policy "floor" is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`
	drop := named("brake", func(p *policy.Policy) { p.Action = policy.Drop })
	free := named("free", func(p *policy.Policy) { p.Action = policy.Admit })
	floor := named("floor", quotaOf)
	for name, tt := range map[string]struct {
		applies policy.Governing
		steps   []step
	}{
		"Drop refuses each CREATE": {
			policy.Governing{Policy: drop},
			[]step{{0, create("a"), dropped}, {time.Hour, create("b", message("2")), dropped}},
		},
		"Drop merges what a recorder says of a stored Event, and nothing else": {
			policy.Governing{Policy: drop},
			[]step{
				{0, update("a", details{}, details{count(2)}), "merge 409 AlreadyExists: merged into a, 2 occurrences so far"},
				{0, update("a", details{}, details{labelled("x")}), dropped},
			},
		},
		"Drop does not look at quotas": {
			policy.Governing{Policy: drop, Floor: []*policy.Policy{floor}},
			[]step{{0, create("a"), dropped}, {0, create("b"), dropped}, {0, create("c"), dropped}},
		},
		"Admit merges nothing": {
			policy.Governing{Policy: free},
			[]step{{0, create("a"), "admit"}, {0, create("b"), "admit"}, {0, update("a", details{}, details{count(2)}), "admit"}, {0, update("a", details{count(2)}, details{count(3)}), "admit"}},
		},
		"Admit merges nothing while a quota has tokens": {
			policy.Governing{Policy: free, Floor: []*policy.Policy{floor}},
			[]step{
				{0, update("a", details{}, details{count(2)}), "admit"},
				{0, update("a", details{count(2)}, details{count(3)}), "admit"},
				{0, update("a", details{count(3)}, details{count(4)}), "merge 409 AlreadyExists: merged into a, 4 occurrences so far"},
			},
		},
		"Admit does not get past a quota": {
			policy.Governing{Policy: free, Floor: []*policy.Policy{floor}},
			[]step{{0, create("a"), "admit"}, {0, create("b"), "admit"}, {0, create("c"), empty}, {time.Minute, create("d"), "admit"}},
		},
		"the quotas of policies that do not govern apply": {
			policy.Governing{Policy: named("own", func(*policy.Policy) {}), Floor: []*policy.Policy{floor}},
			[]step{{0, create("a"), "admit"}, {0, create("b", message("2")), "admit"}, {0, create("c", message("3")), empty}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy.Default())
			r.gate.Policies = applies(tt.applies)
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
		audit policy.Governing
		want  []string // of a, its repeat b, and c, which is another one
	}{
		"one that limits": {
			policy.Governing{Audit: named("new", func(p *policy.Policy) {
				p.AuditWarnings, p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = true, 1, 0
			})},
			[]string{
				"", `eventquota: policy "new", which is audited, would merge this Event`,
				`eventquota: policy "new", which is audited, would drop this Event`,
			},
		},
		"one that is not to be heard of": {
			policy.Governing{Audit: named("new", func(p *policy.Policy) { p.Action = policy.Drop })},
			[]string{"", "", ""},
		},
		"quotas": {
			policy.Governing{AuditFloor: []*policy.Policy{named("new", func(p *policy.Policy) {
				quotaOf(p)
				p.AuditWarnings = true
			})}},
			[]string{"", "", `eventquota: policy "new", which is audited, would drop this Event`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy.Default())
			tt.audit.Policy = named("free", func(p *policy.Policy) { p.Action = policy.Admit })
			r.gate.Policies = applies(tt.audit)
			audit, err := memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
			if err != nil {
				t.Fatal(err)
			}
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
