package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// generate returns a Trace of writes.
func generate(t *testing.T, writes ...*GeneratedWrite) *Trace {
	t.Helper()
	trace, err := Generate("made", slices.Values(writes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trace.Close)
	return trace
}

// recorderWrite returns the n-th write of a recorder for one Event.
func recorderWrite(n int32, at time.Time) *GeneratedWrite {
	e := repeatedEvent("a", n, at)
	return &GeneratedWrite{At: at, Event: e, Patch: n > 1}
}

func TestGeneratedWritesAreOrderedByTime(t *testing.T) {
	trace := generate(t,
		&GeneratedWrite{At: sec(9), Event: event("late", "one", sec(9))}, &GeneratedWrite{At: sec(1), Event: event("first", "two", sec(1))},
		&GeneratedWrite{At: sec(1), Event: event("second", "three", sec(1))})
	if in := trace.Input; in.Most != 3 || !in.First.Equal(sec(1)) || !in.Last.Equal(sec(9)) {
		t.Errorf("input %+v", in)
	}
	_, got := runTrace(t, trace, defaults(nil))
	if want := []string{"create first: admit", "create second: admit", "create late: admit"}; !slices.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
}

// TestGeneratedPatchRecreatesExpiredEvent checks that the next PATCH creates an expired Event again. In a recording, the Event
// could be older than the recording.
func TestGeneratedPatchRecreatesExpiredEvent(t *testing.T) {
	hours := func(n int) time.Time { return noon().Add(time.Duration(n) * time.Hour) }
	result, got := runTrace(t, generate(t, recorderWrite(1, hours(0)), recorderWrite(2, hours(2)), recorderWrite(3, hours(4))), defaults(nil))
	if want := []string{"create a: admit", "patch a: admit", "patch a: admit"}; !slices.Equal(got, want) || result.Stored != 3 {
		t.Errorf("decisions %v and %d Events stored, want %v and each created", got, result.Stored, want)
	}
}

// TestDecisionNamesDecidingRules checks the policy, the refusing rule, and the rule in mode Audit.
func TestDecisionNamesDecidingRules(t *testing.T) {
	quota := func(name string, mode policy.Mode) *policy.Quota {
		return &policy.Quota{
			Rule:   policy.Rule{Name: "ClusterEventQuota " + name, Mode: mode},
			Limits: []policy.QuotaLimit{{Name: "all", Bucket: policy.Bucket{ID: name, Burst: 1, Tokens: 1, Interval: time.Hour}}},
		}
	}
	invalid := event("e", "four", sec(4))
	invalid.InvolvedObject.Namespace = "another"
	decisions := func(o Options) (all []Decision) {
		o.Decided = func(d Decision) {
			all = append(all, Decision{Outcome: d.Outcome, Policy: d.Policy, Refused: d.Refused, Audited: d.Audited})
		}
		trace := generate(t, &GeneratedWrite{At: sec(0), Event: event("a", "one", sec(0))}, &GeneratedWrite{At: sec(1), Event: event("b", "two", sec(1))},
			&GeneratedWrite{At: sec(2), Event: event("c", "one", sec(2))}, &GeneratedWrite{At: sec(3), Event: event("d", "three", sec(3))}, &GeneratedWrite{At: sec(4), Event: invalid})
		if _, err := trace.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return all
	}
	dropping := func(p *policy.Policy) { p.Name, p.Action = "ClusterEventPolicy d", policy.Drop }
	by := func(limit, rule string) Refused { return Refused{Limit: limit, Rule: rule} }
	for says, test := range map[string]struct {
		o    Options
		want []Decision
	}{
		"a quota": {defaults(nil, quota("q", policy.Enforce)), []Decision{
			{Outcome: admission.Admitted, Policy: "default"},
			{Outcome: admission.Dropped, Policy: "default", Refused: by("all", "ClusterEventQuota q")},
			{Outcome: admission.Merged, Policy: "default"},
			{Outcome: admission.Dropped, Policy: "default", Refused: by("all", "ClusterEventQuota q")},
			{Outcome: admission.Ignored, Policy: "default"},
		}},
		"a quota in mode Audit": {defaults(nil, quota("q", policy.Audit)), []Decision{
			{Outcome: admission.Admitted, Policy: "default", Audited: &Audited{Outcome: admission.Admitted}},
			{Outcome: admission.Admitted, Policy: "default", Audited: &Audited{admission.Dropped, by("all", "ClusterEventQuota q")}},
			{Outcome: admission.Merged, Policy: "default", Audited: &Audited{Outcome: admission.Merged}},
			{Outcome: admission.Admitted, Policy: "default", Audited: &Audited{admission.Dropped, by("all", "ClusterEventQuota q")}},
			{Outcome: admission.Ignored, Policy: "default"},
		}},
		"a policy that drops all": {defaults(dropping), []Decision{
			{Outcome: admission.Dropped, Policy: "ClusterEventPolicy d", Refused: by("", "ClusterEventPolicy d")},
			{Outcome: admission.Dropped, Policy: "ClusterEventPolicy d", Refused: by("", "ClusterEventPolicy d")},
			{Outcome: admission.Dropped, Policy: "ClusterEventPolicy d", Refused: by("", "ClusterEventPolicy d")},
			{Outcome: admission.Dropped, Policy: "ClusterEventPolicy d", Refused: by("", "ClusterEventPolicy d")},
			{Outcome: admission.Ignored, Policy: "ClusterEventPolicy d"},
		}},
	} {
		t.Run(says, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decisions(test.o)); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
	if got := by("all", "ClusterEventQuota q").String() + ", " + by("", "ClusterEventPolicy d").String(); got != "all of ClusterEventQuota q, ClusterEventPolicy d" {
		t.Errorf("they are called %s", got)
	}
}
