package watch_test

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

func TestTenantsDoNotDelayClusterRules(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const tenants = 200
	for i := range tenants {
		for j := range policy.MaxRules {
			r.policies.Add(object(t, fmt.Sprint("n", i), fmt.Sprint("p", j), 1, "action: Drop, match: {reasons: [A]}"))
		}
	}
	r.clusterPolicies.Add(object(t, "", "first", 1, "tier: Admin"))
	r.start(t)
	if got := activePolicy(r.Cache, "other"); got != "ClusterEventPolicy first@1" {
		t.Errorf("%s governs once synced", got)
	}
	const all = tenants * policy.MaxRules
	eventually(t, "the first is compiled", func() bool { n := len(r.Reports()); return n > all && r.pending() < all })
	r.clusterPolicies.Add(object(t, "", "brake", 1, "tier: Admin, precedence: 1, action: Drop"))
	r.wantActivePolicy(t, "other", "ClusterEventPolicy brake@1")
	if n := r.pending(); n < all/2 {
		t.Errorf("%d rules are pending, want most", n)
	}
}
