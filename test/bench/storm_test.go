package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/test/flood"
)

// fakeSlice returns a slice with 60 answered Events per second.
func fakeSlice(s stormScenario) stormSlice {
	return stormSlice{
		p50: 1, p99: 2, requests: 25, failed: 1, failures: 4,
		events: flood.Result{Answers: map[int]int{s.want: 100, http.StatusCreated: 20}, Elapsed: 2 * time.Second, Rejected: 3, Lost: 5},
	}
}

func TestStormsAlternate(t *testing.T) {
	all := []stormScenario{
		{name: "quiet"},
		{name: "both", answerPrefix: "lane_drop", webhook: &webhook{}, want: http.StatusBadRequest},
		{name: "lane", answerPrefix: "lane", nodes: true, slow: true, suffix: "_slow_webhook", want: http.StatusConflict},
	}
	var order []string
	var rounds []figures
	totals := figures{}
	for round := range 3 {
		f := figures{}
		err := measureStormsInTurns(all, round, f, totals, func(s stormScenario) (stormSlice, error) {
			order = append(order, s.title())
			seen := fakeSlice(s)
			seen.p99 += float64(round)
			return seen, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, f)
	}
	const turns = "quiet both nodes_lane_slow_webhook both nodes_lane_slow_webhook quiet nodes_lane_slow_webhook quiet both"
	if got := strings.Join(order, " "); got != turns {
		t.Errorf("got turns %s, want %s", got, turns)
	}
	want := figures{
		"bystander_quiet_p50_ms": 1, "bystander_quiet_p99_ms": 3, "bystander_quiet_failed": 3, "bystander_quiet_requests": 75,
		"bystander_both_p50_ms": 1, "bystander_both_p99_ms": 3, "bystander_both_failed": 3, "bystander_both_requests": 75,
		"bystander_both_webhook_failures": 12,
		"api200_lane_drop_per_s":          60, "api200_lane_drop_rejected": 9, "api200_lane_drop_lost": 15,
		"bystander_nodes_lane_p50_ms_slow_webhook": 1, "bystander_nodes_lane_p99_ms_slow_webhook": 3,
		"bystander_nodes_lane_failed_slow_webhook": 3, "bystander_nodes_lane_requests_slow_webhook": 75,
		"bystander_nodes_lane_webhook_failures_slow_webhook": 12,
		"api200_nodes_lane_per_s_slow_webhook":               60,
		"api200_nodes_lane_rejected_slow_webhook":            9, "api200_nodes_lane_lost_slow_webhook": 15,
	}
	if diff := cmp.Diff(want, medians(append(rounds, totals))); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestStormFigures(t *testing.T) {
	var want []string
	for _, name := range []string{"quiet", "none", "eventratelimit", "webhook", "lane", "both"} {
		for _, writers := range []string{"", "nodes_"} {
			for _, figure := range []string{"p50_ms", "p99_ms", "failed"} {
				want = append(want, "bystander_"+writers+name+"_"+figure)
			}
		}
	}
	for _, suffix := range []string{"", "_watchers20", "_watchers100", "_slow_webhook"} {
		want = append(want, "bystander_both_p50_ms"+suffix, "bystander_both_p99_ms"+suffix, "bystander_both_failed"+suffix,
			"bystander_both_webhook_failures"+suffix, "api200_lane_drop_per_s"+suffix)
	}
	for _, name := range []string{"none", "deny", "drop", "lane_deny"} {
		want = append(want, "api200_"+name+"_per_s")
	}
	for _, ratio := range []string{"both_over_quiet", "none_over_both"} {
		want = append(want, "bystander_"+ratio, "bystander_nodes_"+ratio)
	}
	got := figures{}
	if err := measureStormsInTurns(stormScenarios(), 0, got, got, func(s stormScenario) (stormSlice, error) { return fakeSlice(s), nil }); err != nil {
		t.Fatal(err)
	}
	got.stormRatios()
	var table bytes.Buffer
	report{out: &table, medians: got}.storms(options{rounds: 1, seconds: 1})
	for _, name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("no storm has the figure %s", name)
		}
	}
	for _, text := range []string{"nodes_both", "both_watchers100", "1 of 25"} {
		if !strings.Contains(table.String(), text) {
			t.Errorf("the table does not contain %q:\n%s", text, &table)
		}
	}
}

func TestComparedStormsAlternate(t *testing.T) {
	var order []string
	got := figures{}
	must(t, compareAnswers(0, got, func(s stormScenario) (stormSlice, error) {
		order = append(order, s.answerPrefix)
		seen := fakeSlice(s)
		seen.events = flood.Result{Answers: map[int]int{s.want: 100 * len(order)}, Elapsed: time.Second}
		if s.answerPrefix == "lane_drop" {
			seen.events.Elapsed = 2 * time.Second
		}
		return seen, nil
	}))
	const turns = "lane_deny lane_drop lane_drop lane_deny"
	if all := strings.Join(order, " "); all != strings.Join([]string{turns, turns, turns}, " ") {
		t.Errorf("got order %s, want %s three times", all, turns)
	}
	// Both storms have the same number of Events in total, and lane_drop takes twice as long.
	if ratio := got["api200_lane_drop_over_lane_deny"]; ratio != 0.5 {
		t.Errorf("got ratio %g, want 0.5", ratio)
	}
}

func TestStormNamespacesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, s := range stormScenarios() {
		namespace := s.namespace()
		if other, shared := seen[namespace]; shared {
			t.Errorf("%s and %s share a namespace", other, s.title())
		}
		seen[namespace] = s.title()
		if invalid := validation.IsDNS1123Label(namespace); invalid != nil {
			t.Errorf("namespace %q: %v", namespace, invalid)
		}
	}
}

func TestUnexpectedStormAnswersAreReported(t *testing.T) {
	const created, dropped = http.StatusCreated, http.StatusBadRequest
	for name, test := range map[string]struct {
		answers            map[int]int
		requests, failures int
		ok                 bool
	}{
		"all dropped":                         {map[int]int{dropped: 100}, 1, 0, true},
		"some not decided in time":            {map[int]int{dropped: 60, created: 40}, 1, 0, true},
		"most stored without failed calls":    {map[int]int{dropped: 40, created: 60}, 1, 0, false},
		"most stored because of failed calls": {map[int]int{dropped: 40, created: 60}, 1, 60, true},
		"all stored because of failed calls":  {map[int]int{created: 100}, 1, 100, false},
		"a failing server":                    {map[int]int{dropped: 99, http.StatusInternalServerError: 1}, 1, 0, false},
		"no answers":                          {nil, 1, 0, false},
		"no requests of the other account":    {map[int]int{dropped: 100}, 0, 0, false},
	} {
		s := stormScenario{name: "both", answerPrefix: "lane_drop", want: dropped}
		err := s.check(stormSlice{requests: test.requests, failures: int64(test.failures), events: flood.Result{Answers: test.answers}})
		if (err == nil) != test.ok {
			t.Errorf("%s: got error %v, want an error: %t", name, err, !test.ok)
		}
	}
}

func TestSlowWebhookDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPlainHandler(answerAllow)
		h.delay = slowAnswer
		begun := time.Now()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", strings.NewReader(`{"request":{"uid":"1"}}`)))
		if took := time.Since(begun); answer.Code != http.StatusOK || took != slowAnswer {
			t.Errorf("got status %d after %s, want 200 after %s", answer.Code, took, slowAnswer)
		}
	})
}
