package policy_test

import (
	"testing"

	"github.com/eventquota/eventquota/policy"
)

func TestBucketIDChangesOnlyWithLimit(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	spam := w.policy(t, "p", "").SpamFilter.ID
	for spec, same := range map[string]bool{
		"action: Limit\nmode: Audit\nprecedence: 3\nmatch: {messages: ['*']}":                   true,
		"merge: {similar: {window: 1m}}\nspamFilter: {reservePerReason: 0, chargeMerged: true}": true,
		"spamFilter: {per: [Type, InvolvedObject, Source]}":                                     true,
		"spamFilter: {burst: 26}":                     false,
		"spamFilter: {interval: 6m}":                  false,
		"spamFilter: {per: [Source, InvolvedObject]}": false,
	} {
		if is := w.policy(t, "p", spec).SpamFilter.ID; (is == spam) != same {
			t.Errorf("%s: spam filter %q to %q", spec, spam, is)
		}
	}
	id := func(q *policy.Quota) string { return q.Limits[len(q.Limits)-1].ID }
	const limit = "{name: k, per: [User], burst: 1, tokens: 2}"
	quota := id(w.quota(t, "p", "limits: ["+limit+"]"))
	for says, test := range map[string]struct {
		changed *policy.Quota
		same    bool
	}{
		"another limit before":  {w.quota(t, "p", "limits: [{name: m, burst: 1, tokens: 2}, "+limit+"]"), true},
		"what it matches":       {w.quota(t, "p", "match: {reasons: [a]}\nlimits: ["+limit+"]"), true},
		"its reserve":           {w.quota(t, "p", "limits: [{name: k, per: [User], burst: 1, tokens: 2, warningReservePercent: 3}]"), true},
		"its burst":             {w.quota(t, "p", "limits: [{name: k, per: [User], burst: 3, tokens: 2}]"), false},
		"what has a bucket":     {w.quota(t, "p", "limits: [{name: k, burst: 1, tokens: 2}]"), false},
		"its name":              {w.quota(t, "p", "limits: [{name: other, per: [User], burst: 1, tokens: 2}]"), false},
		"the name of its quota": {w.quota(t, "q", "limits: ["+limit+"]"), false},
		"the kind of its quota": {w.clusterQuota(t, "p", "limits: ["+limit+"]"), false},
	} {
		if is := id(test.changed); (is == quota) != test.same {
			t.Errorf("%s: %q to %q", says, quota, is)
		}
	}
}
