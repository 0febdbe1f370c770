package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/policy"
)

func TestTheDefaultPolicyHasTheLimitsOfClientGo(t *testing.T) {
	t.Parallel()
	want := &policy.Policy{
		Rule: policy.Rule{Name: "default", Mode: policy.Enforce}, Action: policy.Limit,
		// defaultAggregateMaxEvents and defaultAggregateIntervalInSeconds of
		// client-go's record package; an Event lives an hour by default.
		Merge: policy.Merge{
			Enabled: true, Threshold: 10, SimilarWindow: 600 * time.Second, IdenticalWindow: time.Hour,
			WriteInterval: 10 * time.Second, KeepMessages: 5,
		},
		// defaultSpamBurst, defaultSpamQPS and getSpamKey.
		SpamFilter: policy.SpamFilter{
			Enabled: true, ReservePerReason: 1,
			Bucket: policy.Bucket{
				ID:    "///spam filter/25/1/5m0s/[InvolvedObject Source Type]",
				Burst: 25, Tokens: 1, Interval: 300 * time.Second,
				Per: []policy.KeyPart{policy.KeySource, policy.KeyInvolvedObject, policy.KeyType},
			},
		},
		MaxMessageBytes: 1024,
	}
	if diff := cmp.Diff(want, policy.Default()); diff != "" {
		t.Errorf("default policy (-want +got):\n%s", diff)
	}
}
