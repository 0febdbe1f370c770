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

func reportInMode(m policy.Mode) watch.Report {
	r := validReport("p", 3)
	r.Mode = m
	return r
}

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 5000, time.UTC) }

func TestConditions(t *testing.T) {
	t.Parallel()
	beyond, both := reportInMode(policy.Enforce), invalidReport("p", 3, 0)
	beyond.ActiveGeneration, beyond.Excluded, both.Excluded = 0, errors.New("too many"), errors.New("too many")
	for name, tt := range map[string]struct {
		report watch.Report
		want   string
	}{
		"it is enforced":         {reportInMode(policy.Enforce), "Accepted True Valid, Ready True InForce"},
		"it is audited":          {reportInMode(policy.Audit), "Accepted True Valid, Ready True Audited"},
		"it is disabled":         {reportInMode(policy.Disabled), "Accepted True Valid, Ready True Disabled"},
		"the last valid governs": {invalidReport("p", 3, 2), "Accepted False Invalid, Ready False PreviousGenerationInForce"},
		"it is beyond a bound":   {beyond, "Accepted True Valid, Ready False LimitExceeded"},
		"and it is invalid":      {both, "Accepted False Invalid, Ready False LimitExceeded"},
		"none was ever valid":    {invalidReport("p", 3, 0), "Accepted False Invalid, Ready False NeverValid"},
	} {
		t.Run(name, func(t *testing.T) {
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

func TestLongTextsFitIntoStatus(t *testing.T) {
	t.Parallel()
	r := validReport("p", 1)
	r.Err = errors.New(strings.Repeat("é", 40_000))
	s := status.Render(&r, &v1alpha1.Status{}, epoch())
	if n := len(s.Conditions[0].Message); n > 32768 || !strings.HasSuffix(s.Conditions[0].Message, "(cut from 80000 bytes)") {
		t.Errorf("a message of %d bytes", n)
	}
}

// Replicas discard a larger status: they would take it for none, and write it again and again.
func TestLargestNamespacedStatusIsKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\"é", 4000)
	r := validReport("p", 1)
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

func TestCountsBelongToGenerationInForce(t *testing.T) {
	t.Parallel()
	counted := func(r watch.Report) *v1alpha1.Status {
		s := status.RenderCounts(&r, epoch(), 7)
		s.TopSources = make([]v1alpha1.SourceCounts, 1)
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionErrors, Status: metav1.ConditionTrue})
		return s
	}
	for name, tt := range map[string]struct {
		before *v1alpha1.Status
		report watch.Report
		kept   bool
	}{
		"the same":                     {counted(validReport("p", 1)), validReport("p", 1), true},
		"a new one":                    {counted(validReport("p", 1)), validReport("p", 2), false},
		"an invalid one":               {counted(validReport("p", 1)), invalidReport("p", 2, 1), true},
		"another invalid one":          {counted(invalidReport("p", 2, 1)), invalidReport("p", 3, 1), true},
		"a valid one after it":         {counted(invalidReport("p", 2, 1)), validReport("p", 3), false},
		"none known, in a new process": {counted(invalidReport("p", 2, 1)), invalidReport("p", 2, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := status.Render(&tt.report, tt.before, epoch())
			failed := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionErrors) != nil
			if kept := s.Total != nil && s.Total.Admitted == 7; kept != tt.kept || len(s.TopSources) == 1 != kept || failed != kept {
				t.Errorf("counts %+v of %+v, failed %v", s.Total, s.TopSources, failed)
			}
		})
	}
}
