package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

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
