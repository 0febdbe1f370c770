package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/policy"
)

func TestTheDefaultPolicyHasTheLimitsOfClientGo(t *testing.T) {
	t.Parallel()
	want := policy.Policy{
		Name: "default", Action: policy.Limit, Mode: policy.Enforce,
		// defaultAggregateMaxEvents and defaultAggregateIntervalInSeconds of
		// client-go's record package; an Event lives an hour by default.
		Aggregation: policy.Aggregation{
			MaxEvents: 10, Window: 600 * time.Second, RepeatWindow: time.Hour,
			FlushInterval: 10 * time.Second, KeepMessages: 5,
		},
		// defaultSpamBurst, defaultSpamQPS and getSpamKey.
		SpamFilter: policy.SpamFilter{
			ID:    "//default spam 25/1/5m0s Source,InvolvedObject,Type",
			Burst: 25, Tokens: 1, Interval: 300 * time.Second,
			KeyBy:            []policy.KeyPart{policy.KeySource, policy.KeyInvolvedObject, policy.KeyType},
			ReservePerReason: 1,
		},
		Message:        policy.Message{MaxBytes: 1024},
		OnStoreFailure: policy.FailureLocal,
	}
	if diff := cmp.Diff(want, policy.Default()); diff != "" {
		t.Errorf("default policy (-want +got):\n%s", diff)
	}
}

func TestDefaultPoliciesShareNothing(t *testing.T) {
	t.Parallel()
	changed := policy.Default()
	changed.SpamFilter.KeyBy[0] = policy.KeyUser
	if got := policy.Default().SpamFilter.KeyBy[0]; got != policy.KeySource {
		t.Errorf("a change to one default policy made another one key by %s", got)
	}
}
