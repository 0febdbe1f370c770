package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
)

func TestSlowerRulesAreOthersWithLongerIntervals(t *testing.T) {
	with := func(write, most time.Duration) *policy.Policy {
		p := policy.Default()
		p.Merge.WriteInterval, p.Merge.MaxWriteInterval = write, most
		return p
	}
	off := with(time.Second, 0)
	off.Mode = policy.Disabled
	rules := Rules{
		Cluster:    policy.Rules{Policies: []*policy.Policy{with(time.Minute, 2*time.Minute), off}},
		Namespaces: map[string]policy.Namespace{"shop": {Rules: policy.Rules{Policies: []*policy.Policy{with(20*time.Second, 0)}}}},
	}
	slower := rules.Slower(3)
	for says, test := range map[string]struct {
		rules *Rules
		want  []time.Duration
	}{
		"the rules":  {&rules, []time.Duration{10 * time.Second, 20 * time.Second, time.Minute}},
		"the slower": {&slower, []time.Duration{30 * time.Second, time.Minute, 3 * time.Minute}},
	} {
		if got := test.rules.WriteIntervals(); !slices.Equal(got, test.want) {
			t.Errorf("%s have %v, want %v", says, got, test.want)
		}
	}
	if most := slower.Cluster.Policies[0].Merge.MaxWriteInterval; most != 3*time.Minute {
		t.Errorf("the longest wait is %s, want no less than the write interval", most)
	}
	if most := slower.Namespaces["shop"].Policies[0].Merge.MaxWriteInterval; most != 0 {
		t.Errorf("the longest wait is %s, want the default of the store", most)
	}
}
