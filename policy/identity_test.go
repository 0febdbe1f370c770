package policy_test

import (
	"testing"

	"github.com/eventquota/eventquota/policy"
)

func TestBucketsGoOnThroughEveryChangeButOneOfTheirLimits(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	const before = "quotas: [{type: User, burst: 1, tokens: 2}]"
	ids := func(p *policy.Policy) (spam, quota string) { return p.SpamFilter.ID, p.Quotas[len(p.Quotas)-1].ID }
	spam, quota := ids(w.own(t, "p", before))
	for _, test := range []struct {
		says        string
		changed     *policy.Policy
		spam, quota bool
	}{
		{"nothing but its generation", w.own(t, "p", before), true, true},
		{"its action, mode, priority and conditions", w.own(t, "p", "action: Admit\nmode: Audit\npriority: 3\nmatchConditions: [{name: a, expression: 'true'}]\n"+before), true, true},
		{"how it merges", w.own(t, "p", "aggregation: {window: 1m}\nspamFilter: {reservePerReason: 0, chargeMerged: true}\n"+before), true, true},
		{"another quota before", w.own(t, "p", "quotas: [{type: Namespace, burst: 1, tokens: 2}, {type: User, burst: 1, tokens: 2}]"), true, true},
		{"the burst of the spam filter", w.own(t, "p", "spamFilter: {burst: 26}\n"+before), false, true},
		{"the interval of the spam filter", w.own(t, "p", "spamFilter: {interval: 6m}\n"+before), false, true},
		{"the key of the spam filter", w.own(t, "p", "spamFilter: {keyBy: [Source]}\n"+before), false, true},
		{"the burst of the quota", w.own(t, "p", "quotas: [{type: User, burst: 3, tokens: 2}]"), true, false},
		{"the type of the quota", w.own(t, "p", "quotas: [{type: Namespace, burst: 1, tokens: 2}]"), true, false},
		{"nothing but that it was deleted and written again", again(w.own(t, "p", before)), true, true},
		{"its name", w.own(t, "q", before), false, false},
		{"its kind", w.admins(t, "p", before), false, false},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			s, q := ids(test.changed)
			if (s == spam) != test.spam || (q == quota) != test.quota {
				t.Errorf("spam filter %q to %q, quota %q to %q", spam, s, quota, q)
			}
		})
	}
}

// again is p as it is named after it was deleted and written again.
func again(p *policy.Policy) *policy.Policy {
	next := *p
	next.Identity.UID = "another"
	next = next.Identified()
	return &next
}

func TestQuotasThatAreTheSameShareNoBucket(t *testing.T) {
	t.Parallel()
	q := policy.Quota{Type: policy.QuotaUser, Burst: 1, Tokens: 1, Interval: 1}
	p := policy.Policy{Quotas: []policy.Quota{q, q}}
	got := p.Identified()
	if got.Quotas[0].ID == got.Quotas[1].ID || got.Quotas[0].ID == "" {
		t.Errorf("the quotas are called %q and %q", got.Quotas[0].ID, got.Quotas[1].ID)
	}
	if p.Quotas[0].ID != "" {
		t.Error("the quotas of the original were changed")
	}
}
