package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

func inMode(m policy.Mode) watch.Report {
	r := valid("p", 3)
	r.Mode = m
	return r
}

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 5000, time.UTC) }

func TestConditionsSayWhatBecameOfAGeneration(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		report watch.Report
		want   string
	}{
		"it is enforced":          {inMode(policy.Enforce), "Accepted True Valid, Ready True InForce"},
		"it is audited":           {inMode(policy.Audit), "Accepted True Valid, Ready True Audited"},
		"it is disabled":          {inMode(policy.Disabled), "Accepted True Valid, Ready True Disabled"},
		"the one before governs":  {invalid("p", 3, 2), "Accepted False Invalid, Ready False PreviousGenerationInForce"},
		"there was none to go on": {invalid("p", 3, 0), "Accepted False Invalid, Ready False NeverValid"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := status.Render(&tt.report, nil, &v1alpha1.Status{}, epoch())
			var got []string
			for _, c := range s.Conditions {
				got = append(got, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
				if c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(epoch().Truncate(time.Second)) || c.Message == "" {
					t.Errorf("condition %+v", c)
				}
			}
			if got := strings.Join(got, ", "); got != tt.want || s.ObservedGeneration != 3 {
				t.Errorf("generation %d: %s, want %s", s.ObservedGeneration, got, tt.want)
			}
		})
	}
}

func TestTheTimeOfATransitionIsKept(t *testing.T) {
	t.Parallel()
	first, fixed := invalid("p", 1, 0), valid("p", 3)
	again := invalid("p", 2, 0)
	s := status.Render(&first, nil, &v1alpha1.Status{}, epoch())
	at := func() time.Time {
		return meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAccepted).LastTransitionTime.Time
	}
	began := at()
	if s = status.Render(&again, nil, s, epoch().Add(time.Minute)); !at().Equal(began) {
		t.Errorf("still invalid, with a transition at %v", at())
	}
	if s = status.Render(&fixed, nil, s, epoch().Add(time.Minute)); !at().Equal(began.Add(time.Minute)) {
		t.Errorf("valid since %v", at())
	}
}

func TestWhatUsersWriteFitsIntoAStatus(t *testing.T) {
	t.Parallel()
	r := valid("p", 1)
	r.Err = errors.New(strings.Repeat("é", 40_000))
	s := status.Render(&r, nil, &v1alpha1.Status{}, epoch())
	if n := len(s.Conditions[0].Message); n > 32768 || !strings.HasSuffix(s.Conditions[0].Message, "(cut from 80000 bytes)") {
		t.Errorf("a message of %d bytes", n)
	}
}

func TestCountsAreThoseOfTheGenerationThatGoverns(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(epoch())
	counted := func(r watch.Report) *v1alpha1.Status {
		s := status.Render(&r, &status.Sum{Since: now.Time, Total: busiest.Counts{Admitted: 7}}, &v1alpha1.Status{}, epoch())
		return s
	}
	for says, tt := range map[string]struct {
		before *v1alpha1.Status
		report watch.Report
		kept   bool
	}{
		"the same":                          {counted(valid("p", 1)), valid("p", 1), true},
		"a new one":                         {counted(valid("p", 1)), valid("p", 2), false},
		"one that is invalid":               {counted(valid("p", 1)), invalid("p", 2, 1), true},
		"another that is invalid":           {counted(invalid("p", 2, 1)), invalid("p", 3, 1), true},
		"one that mends it":                 {counted(invalid("p", 2, 1)), valid("p", 3), false},
		"none, as a new process knows none": {counted(invalid("p", 2, 1)), invalid("p", 2, 0), false},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := status.Render(&tt.report, nil, tt.before, epoch())
			if kept := s.Total != nil && s.Total.Admitted == 7 && s.LastHour != nil; kept != tt.kept {
				t.Errorf("counts %+v, %+v", s.Total, s.LastHour)
			}
		})
	}
}

func TestAnHourThatOnlyMovesOnIsNoChange(t *testing.T) {
	t.Parallel()
	r := valid("p", 1)
	render := func(now time.Time, n int64, before *v1alpha1.Status) *v1alpha1.Status {
		counted := status.Sum{Since: epoch(), Slots: []status.Slot{{Index: status.SlotAt(now), Counts: busiest.Counts{Merged: n}}}}
		return status.Render(&r, &counted, before, now)
	}
	one := render(epoch(), 1, &v1alpha1.Status{})
	if !status.Same(one, render(epoch().Add(10*time.Minute), 1, one)) {
		t.Error("a change, though nothing else is different")
	}
	if status.Same(one, render(epoch(), 2, one)) {
		t.Error("no change, though a count is different")
	}
	if one.LastHour.Since == nil {
		t.Error("it was changed by the comparison")
	}
}

func TestWhatStandsBeforeARuleIsNamed(t *testing.T) {
	t.Parallel()
	r := valid("p", 1)
	s := status.Render(&r, nil, &v1alpha1.Status{}, epoch(), "governed by ClusterEventPolicy brake before", "and more")
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionShadowed)
	if c == nil || c.Status != metav1.ConditionTrue || c.Message != "governed by ClusterEventPolicy brake before; and more" {
		t.Errorf("condition %+v", c)
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || c.Reason != "Shadowed" {
		t.Errorf("condition %+v, want a reason that kubectl get shows", c)
	}
	s = status.Render(&r, nil, s, epoch())
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionShadowed); c != nil {
		t.Errorf("condition %+v, though nothing stands before it", c)
	}
}

func TestConditionsThatFailedInTheLastHourAreSaid(t *testing.T) {
	t.Parallel()
	r := valid("p", 2)
	counted := &status.Sum{Example: "no such key: te\u202eam\x1b[2J", Slots: []status.Slot{{Index: status.SlotAt(epoch()), Errors: 12}}}
	s := status.Render(&r, counted, &v1alpha1.Status{}, epoch())
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionErrors)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, " 12 Events in the last hour, such as: no such key: te\ufffdam\ufffd[2J") {
		t.Fatalf("condition %+v", c)
	}
	next := valid("p", 3)
	for says, tt := range map[string]struct {
		s    *v1alpha1.Status
		kept bool
	}{
		"what was counted is not known":            {status.Render(&r, nil, s, epoch()), true},
		"an hour later":                            {status.Render(&r, counted, s, epoch().Add(time.Hour)), false},
		"of a new generation":                      {status.Render(&next, &status.Sum{}, s, epoch()), false},
		"of a new generation, nothing being known": {status.Render(&next, nil, s, epoch()), false},
	} {
		if c := meta.FindStatusCondition(tt.s.Conditions, v1alpha1.ConditionErrors); (c != nil) != tt.kept {
			t.Errorf("%s: condition %+v", says, c)
		}
	}
}
