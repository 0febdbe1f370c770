package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// The names are what others look for in the file.
var (
	apiNames = []string{
		"api_admit_etcd_proposals_per_1000", "api_admit_over_noop", "api_admit_p50_ms", "api_admit_p99_ms", "api_admit_per_s",
		"api_deny_etcd_proposals_per_1000", "api_deny_p50_ms", "api_deny_p99_ms", "api_deny_per_s",
		"api_eventratelimit_etcd_proposals_per_1000", "api_eventratelimit_p50_ms", "api_eventratelimit_p99_ms", "api_eventratelimit_per_s",
		"api_none_etcd_proposals_per_1000", "api_none_p50_ms", "api_none_p99_ms", "api_none_per_s",
		"api_noop_etcd_proposals_per_1000", "api_noop_p50_ms", "api_noop_p99_ms", "api_noop_per_s",
		"api_storm_etcd_proposals_per_1000", "api_storm_over_deny", "api_storm_over_eventratelimit", "api_storm_over_none",
		"api_storm_p50_ms", "api_storm_p99_ms", "api_storm_per_s",
	}
	handlerNames = []string{
		"handler_default_allocs", "handler_default_ns", "handler_default_tls_ns",
		"handler_mutate_allocs", "handler_mutate_ns", "handler_mutate_over_default", "handler_mutate_tls_ns", "handler_mutate_tls_over_default",
		"handler_plain_allocs", "handler_plain_ns", "handler_plain_tls_ns",
		"handler_validate_allocs", "handler_validate_ns", "handler_validate_over_default", "handler_validate_tls_ns", "handler_validate_tls_over_default",
	}
	policyNames = []string{
		"policy_resolve_allocs", "policy_resolve_conditional_allocs", "policy_resolve_conditional_ns", "policy_resolve_growth",
		"policy_resolve_ns", "policy_resolve_one_allocs", "policy_resolve_one_ns",
	}
)

func TestHandlersAreMeasured(t *testing.T) {
	table := measured(t, onlyHandlers, handlerNames)
	for _, part := range []string{"handler_mutate", "handler_default", "at most 0.7"} {
		if !strings.Contains(table, part) {
			t.Errorf("the table has no %q:\n%s", part, table)
		}
	}
}

func TestSimulateIsMeasured(t *testing.T) {
	table := measured(t, onlySimulate, []string{"simulate_decode_per_s", "simulate_over_decode", "simulate_per_s", "simulate_rss_bytes"})
	for _, part := range []string{"plain decode", "2000 requests", "at least 0.5", "at most 2e+08"} {
		if !strings.Contains(table, part) {
			t.Errorf("the table has no %q:\n%s", part, table)
		}
	}
}

func TestPoliciesAreMeasured(t *testing.T) {
	table := measured(t, onlyPolicies, policyNames)
	for _, part := range []string{"policy_resolve_conditional", "1000", "at most 1.2"} {
		if !strings.Contains(table, part) {
			t.Errorf("the table has no %q:\n%s", part, table)
		}
	}
}

// measured holds that one part writes those names, with times of more than 0, and
// returns what it prints.
func measured(t *testing.T, part string, names []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bin", "bench.json")
	var table strings.Builder
	o := options{only: part, rounds: 1, seconds: 0.1, simulated: 2000, output: path}
	if err := bench(t.Context(), o, &table); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]float64
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("names in the file (-want +got):\n%s", diff)
	}
	for name, value := range got {
		if value <= 0 && !strings.HasSuffix(name, "_allocs") {
			t.Errorf("%s: got %g, want more than 0", name, value)
		}
	}
	return table.String()
}

func TestEveryScenarioHasItsFigures(t *testing.T) {
	round := figures{}
	for _, s := range scenarios() {
		s.figures(sample{requests: 1, elapsed: time.Second, latencies: []time.Duration{time.Second}}, counts{}, counts{}, round)
	}
	apiRatios(round)
	got := slices.Sorted(maps.Keys(round))
	got = slices.DeleteFunc(got, func(name string) bool { return strings.HasSuffix(name, "_webhook_failures") })
	if diff := cmp.Diff(apiNames, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestARunWithFailedCallsIsLeftOut(t *testing.T) {
	s := scenario{name: "api_x"}
	round := figures{}
	s.figures(sample{requests: 1, elapsed: time.Second}, counts{}, counts{failures: 1}, round)
	if diff := cmp.Diff(figures{"api_x_webhook_failures": 1}, round); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestOtherAnswersThanWantedAreNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		want     answer
		statuses map[int]int
		ok       bool
	}{
		"all stored":                       {stored, map[int]int{http.StatusCreated: 100}, true},
		"one refused that is to be stored": {stored, map[int]int{http.StatusCreated: 99, http.StatusConflict: 1}, false},
		"merged and dropped":               {refused, map[int]int{http.StatusConflict: 90, http.StatusTooManyRequests: 10}, true},
		"a bucket refilled":                {refused, map[int]int{http.StatusConflict: 98, http.StatusCreated: 2}, true},
		"a storm that is let through":      {refused, map[int]int{http.StatusConflict: 50, http.StatusCreated: 50}, false},
		"a server that fails":              {refused, map[int]int{http.StatusConflict: 99, http.StatusInternalServerError: 1}, false},
	} {
		if err := (scenario{want: test.want}).check(sample{requests: 100, statuses: test.statuses}); (err == nil) != test.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReviewTellsOfOneEventAfterTheOther(t *testing.T) {
	for _, validating := range []bool{false, true} {
		r, err := newReview(validating)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for serial := range 3 {
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(r.number(serial), &got); err != nil {
				t.Fatal(err)
			}
			var e corev1.Event
			if err := json.Unmarshal(got.Request.Object.Raw, &e); err != nil {
				t.Fatal(err)
			}
			if e.Name != got.Request.Name || !strings.Contains(e.Message, e.InvolvedObject.Name) {
				t.Errorf("the review contradicts itself: %s", r.body)
			}
			if stored := e.UID != ""; stored != validating {
				t.Errorf("the Event has a uid: %t, want %t", stored, validating)
			}
			names[e.Name+string(e.InvolvedObject.UID)+string(got.Request.UID)] = true
		}
		if len(names) != 3 {
			t.Errorf("got %d Events, want 3: %v", len(names), names)
		}
	}
}

func TestFlagsOutOfRangeAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-only both":    `-only "both"`,
		"-rounds 0":     "-rounds 0",
		"-seconds NaN":  "-seconds NaN",
		"-seconds 61":   "-seconds 61",
		"-objects 999":  "-objects 999",
		"-simulated 9":  "-simulated 9: must be at least 1000",
		"-output=":      "-output",
		"-no-such-flag": "no-such-flag",
		"surplus":       `"surplus"`,
	} {
		_, err := parseOptions(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %s", args, err, want)
		}
	}
}

func TestMediansOfRounds(t *testing.T) {
	got := medians([]figures{{"a": 3, "b": 1}, {"a": 1}, {"a": 2, "b": 2}})
	if diff := cmp.Diff(figures{"a": 2, "b": 1.5}, got); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
}
