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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names are what others look for in the file.
var (
	apiNames = []string{
		"api_admit_etcd_proposals_per_1000", "api_admit_over_noop", "api_admit_p50_ms", "api_admit_p99_ms", "api_admit_per_s",
		"api_deny_etcd_proposals_per_1000", "api_deny_p50_ms", "api_deny_p99_ms", "api_deny_per_s",
		"api_drop_etcd_proposals_per_1000", "api_drop_over_deny", "api_drop_p50_ms", "api_drop_p99_ms", "api_drop_per_s", "api_drop_tokens_per_1000",
		"api_eventratelimit_etcd_proposals_per_1000", "api_eventratelimit_p50_ms", "api_eventratelimit_p99_ms", "api_eventratelimit_per_s",
		"api_merge_etcd_proposals_per_1000", "api_merge_over_deny", "api_merge_p50_ms", "api_merge_p99_ms", "api_merge_per_s",
		"api_none_etcd_proposals_per_1000", "api_none_p50_ms", "api_none_p99_ms", "api_none_per_s",
		"api_noop_etcd_proposals_per_1000", "api_noop_p50_ms", "api_noop_p99_ms", "api_noop_per_s",
		"api_wide_etcd_proposals_per_1000", "api_wide_p50_ms", "api_wide_p99_ms", "api_wide_per_s", "api_wide_tokens_per_1000",
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
	for _, part := range []string{"handler_mutate", "handler_default", "at most 0.7", "at most 40"} {
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

func TestAttacksHaveTheirFigures(t *testing.T) {
	got, err := attackFigures(`=== RUN TestA
    a_test.go:1: p99 of others: 1ms without and 2.5ms with 1,000 that send 7.8 MB
    a_test.go:1: p99 of others: 4ms without and 2ms with streams of HTTP/2
ok`)
	want := figures{
		"attack_1000_that_send_7.8_mb_p99_ms": 2.5, "attack_1000_that_send_7.8_mb_quiet_p99_ms": 1, "attack_1000_that_send_7.8_mb_p99_ratio": 2.5,
		"attack_streams_of_http_2_p99_ms": 2, "attack_streams_of_http_2_quiet_p99_ms": 4, "attack_streams_of_http_2_p99_ratio": 0.5,
		"attack_worst_p99_ratio": 2.5,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("figures (-want +got):\n%s%v", diff, err)
	}
	if got, err := attackFigures("ok"); err == nil {
		t.Errorf("of nothing: %v, want an error", got)
	}
}

// measured holds that one part writes those names, with times of more than 0, and
// returns what it prints.
func measured(t *testing.T, part string, names []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bin", "bench.json")
	var table strings.Builder
	o := options{only: part, rounds: 1, seconds: 0.1, objects: 1000, simulated: 2000, output: path}
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
		seen, after := sample{requests: 1, elapsed: time.Second, latencies: []time.Duration{time.Second}}, counts{}
		if s.webhook != nil {
			after.calls = 1
		}
		if err := s.figures(seen, after, time.Second, round); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
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
	if err := s.figures(sample{requests: 1, elapsed: time.Second}, counts{failures: 1}, time.Second, round); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(figures{"api_x_webhook_failures": 1}, round); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestTokensAreThoseOfTheTimeOfARun(t *testing.T) {
	s := scenario{name: "api_x", limit: limit(100, 50, time.Second)}
	round := figures{}
	if err := s.figures(sample{requests: 4000, elapsed: time.Second}, counts{}, 2*time.Second, round); err != nil {
		t.Error(err)
	}
	if got := round["api_x_tokens_per_1000"]; got != 25 {
		t.Errorf("%g tokens for 1000 writes, want 25", got)
	}
}

func TestOtherAnswersThanWantedAreNoticed(t *testing.T) {
	const created, merged, dropped = http.StatusCreated, http.StatusConflict, http.StatusTooManyRequests
	for name, test := range map[string]struct {
		want     []int
		calls    int64
		statuses map[int]int
		ok       bool
	}{
		"all stored":                       {[]int{created}, 100, map[int]int{created: 100}, true},
		"one refused that is to be stored": {[]int{created}, 100, map[int]int{created: 99, merged: 1}, false},
		"stored and dropped":               {[]int{created, dropped}, 100, map[int]int{created: 90, dropped: 10}, true},
		"one merged that is to be dropped": {[]int{dropped}, 100, map[int]int{dropped: 99, merged: 1}, false},
		"a bucket refilled":                {[]int{merged}, 100, map[int]int{merged: 98, created: 2}, true},
		"a storm that is let through":      {[]int{merged}, 100, map[int]int{merged: 50, created: 50}, false},
		"a server that fails":              {[]int{merged}, 100, map[int]int{merged: 99, http.StatusInternalServerError: 1}, false},
		"a call in each phase":             {[]int{created}, 200, map[int]int{created: 100}, false},
		"a webhook that is not called":     {[]int{created}, 0, map[int]int{created: 100}, false},
	} {
		s := scenario{want: test.want, webhook: &webhook{}}
		if err := s.check(sample{requests: 100, statuses: test.statuses}, counts{calls: test.calls}); (err == nil) != test.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAWideStormHasTheProportionsOfARealOne(t *testing.T) {
	const pods = 1100
	reasons, aboutPods, messages := map[string]int{}, map[string]int{}, map[string]bool{}
	scheduled := 0
	for serial := range int64(3 * pods) {
		e := corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault}}
		wide(&e, serial)
		reasons[e.Reason]++
		aboutPods[e.InvolvedObject.Name]++
		messages[e.InvolvedObject.Name+e.Source.String()+e.Message] = true
		if e.Source.Component == "default-scheduler" {
			scheduled++
		}
	}
	if len(aboutPods) != pods || len(messages) != 3*pods {
		t.Errorf("%d pods and %d Events that do not repeat each other, want %d and %d", len(aboutPods), len(messages), pods, 3*pods)
	}
	if diff := cmp.Diff(map[string]int{"Killing": 1100, "Created": 600, "Started": 600, "Pulled": 700, "Scheduled": 300}, reasons); diff != "" {
		t.Errorf("Events by reason (-want +got):\n%s", diff)
	}
	if scheduled != reasons["Scheduled"] {
		t.Errorf("%d Events by the scheduler, want %d", scheduled, reasons["Scheduled"])
	}
}

func TestReviewTellsOfOneEventAfterTheOther(t *testing.T) {
	for _, update := range []bool{false, true} {
		r, err := newReview(update)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for serial := range 3 {
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal(r.number(serial), &got); err != nil {
				t.Fatal(err)
			}
			e := event(t, got.Request.Object.Raw)
			if e.Name != got.Request.Name || !strings.Contains(e.Message, e.InvolvedObject.Name) {
				t.Errorf("the review contradicts itself: %s", r.body)
			}
			if stored := e.UID != ""; stored != update || stored != (got.Request.Operation == admissionv1.Update) {
				t.Errorf("the Event of %s has a uid: %t, want %t", got.Request.Operation, stored, update)
			}
			if update {
				before := event(t, got.Request.OldObject.Raw)
				before.Count, before.LastTimestamp = before.Count+1, e.LastTimestamp
				if diff := cmp.Diff(before, e); diff != "" {
					t.Errorf("the UPDATE is no repeat (-stored +written):\n%s", diff)
				}
			}
			names[e.Name+string(e.InvolvedObject.UID)+string(got.Request.UID)] = true
		}
		if len(names) != 3 {
			t.Errorf("got %d Events, want 3: %v", len(names), names)
		}
	}
}

func event(t *testing.T, raw []byte) (e corev1.Event) {
	t.Helper()
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	return e
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
