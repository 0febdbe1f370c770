package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	beyond, both := inMode(policy.Enforce), invalid("p", 3, 0)
	beyond.Governing, beyond.Beyond, both.Beyond = 0, errors.New("too many"), errors.New("too many")
	for says, tt := range map[string]struct {
		report watch.Report
		want   string
	}{
		"it is enforced":          {inMode(policy.Enforce), "Accepted True Valid, Ready True InForce"},
		"it is audited":           {inMode(policy.Audit), "Accepted True Valid, Ready True Audited"},
		"it is disabled":          {inMode(policy.Disabled), "Accepted True Valid, Ready True Disabled"},
		"the one before governs":  {invalid("p", 3, 2), "Accepted False Invalid, Ready False PreviousGenerationInForce"},
		"there are too many":      {beyond, "Accepted True Valid, Ready False TooMany"},
		"and it is not valid":     {both, "Accepted False Invalid, Ready False TooMany"},
		"there was none to go on": {invalid("p", 3, 0), "Accepted False Invalid, Ready False NeverValid"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			s := status.Render(&tt.report, &v1alpha1.Status{}, epoch())
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

func TestWhatUsersWriteFitsIntoAStatus(t *testing.T) {
	t.Parallel()
	r := valid("p", 1)
	r.Err = errors.New(strings.Repeat("é", 40_000))
	s := status.Render(&r, &v1alpha1.Status{}, epoch())
	if n := len(s.Conditions[0].Message); n > 32768 || !strings.HasSuffix(s.Conditions[0].Message, "(cut from 80000 bytes)") {
		t.Errorf("a message of %d bytes", n)
	}
}

// TestTheLargestStatusOfANamespacesRuleIsKept holds that what is written of it is not larger than what replicas keep: it
// would be taken for none, and written again and again.
func TestTheLargestStatusOfANamespacesRuleIsKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\"é", 4000)
	r := valid("p", 1)
	r.Namespace, r.Err = "shop", errors.New(long)
	s := status.RenderWorst(&r, long, epoch())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil || len(s.Conditions) != 5 || len(s.TopSources) != 5 {
		t.Fatalf("%d conditions, %d sources, %v", len(s.Conditions), len(s.TopSources), err)
	}
	if size := policy.SizeOf(content); size > watch.MaxStatusSize {
		t.Errorf("a status has %d bytes, and at most %d are kept", size, watch.MaxStatusSize)
	}
}

func TestCountsAreThoseOfTheGenerationThatGoverns(t *testing.T) {
	t.Parallel()
	counted := func(r watch.Report) *v1alpha1.Status {
		s := status.RenderCounts(&r, epoch(), 7)
		s.TopSources = make([]v1alpha1.SourceCounts, 1)
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionErrors, Status: metav1.ConditionTrue})
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
			s := status.Render(&tt.report, tt.before, epoch())
			failed := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionErrors) != nil
			if kept := s.Total != nil && s.Total.Admitted == 7; kept != tt.kept || len(s.TopSources) == 1 != kept || failed != kept {
				t.Errorf("counts %+v of %+v, failed %v", s.Total, s.TopSources, failed)
			}
		})
	}
}
