package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/store"
)

// TestEveryAimHasAFigure checks that every aim has a figure, because the table silently omits other aims. It measures the parts that need
// no control plane, and makes up the figures of the others.
func TestEveryAimHasAFigure(t *testing.T) {
	got, err := attackFigures("p99 of others: 1ms without and 2.5ms with 1,000 that send 7.8 MB\np99 of others: 4ms without and 2ms with streams of HTTP/2\n" +
		"in force under attack: median 20ms, worst 1.5s: quota\nin force under attack: median 30ms, worst 1s: quota\n")
	if err != nil || got[worstAttack] != 2.5 || got[slowestInForce] != 1500 || got["attack_in_force_quota_median_ms"] != 30 {
		t.Errorf("got figures %v (%v), want a worst ratio of 2.5, a slowest change of 1,500 ms and a median of 30 ms", got, err)
	}
	for _, s := range append(scenarios(), serialScenarios()...) {
		seen, after := sample{requests: 1, elapsed: time.Second, latencies: []time.Duration{time.Second}}, counts{}
		if s.webhook != nil {
			after.calls = 1
		}
		if err := s.figures(seen, after, time.Second, got); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	apiRatios(got)
	serialDifferences(got)
	for _, s := range stormScenarios() {
		s.figures(fakeSlice(s), got, got)
	}
	got.stormRatios()
	must(t, compareAnswers(0, got, func(s stormScenario) (stormSlice, error) { return fakeSlice(s), nil }))
	var tables strings.Builder
	for _, part := range []string{onlyHandlers, onlyPolicies, onlyRedis, onlySimulate} {
		o := options{only: part, rounds: 1, seconds: 0.1, objects: 1000, namespaces: 10, simulated: 2000, output: filepath.Join(t.TempDir(), "bin", "bench.json")}
		if err := bench(t.Context(), o, &tables); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(o.output)
		if err != nil {
			t.Fatal(err)
		}
		measured := figures{}
		if err := json.Unmarshal(content, &measured); err != nil {
			t.Fatal(err)
		}
		for name, value := range measured {
			if value <= 0 && !strings.HasSuffix(name, "_allocs") {
				t.Errorf("figure %s: got %g, want more than 0", name, value)
			}
		}
		maps.Copy(got, measured)
	}
	for _, text := range []string{"handler_mutate", "policy_resolve_conditional", "redis_decide3", "decoding alone", "at least 0.6", "at most 500"} {
		if !strings.Contains(tables.String(), text) {
			t.Errorf("the tables do not contain %q:\n%s", text, &tables)
		}
	}
	for _, a := range aims() {
		for _, name := range []string{a.figure, a.over} {
			if _, ok := got[name]; !ok && name != "" {
				t.Errorf("no measurement has the figure %s", name)
			}
		}
	}
}

func TestFiguresOfARun(t *testing.T) {
	s := scenario{name: "api_x", limit: limit(100, 50, time.Second), webhook: &webhook{realWebhook, nil}}
	for name, test := range map[string]struct {
		requests, failures int
		figure             string
		want               float64
	}{
		"tokens of the elapsed time":              {4000, 0, "api_x_tokens_per_1000", 25},
		"only the number of failed calls":         {1, 1, "api_x_webhook_failures", 1},
		"time of the API server for each request": {4000, 0, "api_x_apiserver_us", 1000},
		"time of the webhook for each request":    {4000, 0, "api_x_webhook_us", 250},
	} {
		round := figures{}
		spent := counts{calls: int64(test.requests), failures: int64(test.failures), apiServer: 4 * time.Second, webhook: time.Second}
		if err := s.figures(sample{requests: test.requests, elapsed: time.Second}, spent, 2*time.Second, round); err != nil {
			t.Error(err)
		}
		if round[test.figure] != test.want || test.failures > 0 && len(round) > 1 {
			t.Errorf("%s: got figures %v, want %s to be %g", name, round, test.figure, test.want)
		}
	}
	got := medians([]figures{{"a": 3, "b": 1}, {"a": 1}, {"a": 2, "b": 2}})
	if diff := cmp.Diff(figures{"a": 2, "b": 1.5}, got); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
}

func TestUnexpectedAnswersAreReported(t *testing.T) {
	const created, merged, dropped = http.StatusCreated, http.StatusConflict, http.StatusBadRequest
	for name, test := range map[string]struct {
		want     []int
		calls    int64
		statuses map[int]int
		ok       bool
	}{
		"an Event merged instead of stored":  {[]int{created}, 100, map[int]int{created: 99, merged: 1}, false},
		"stored and dropped":                 {[]int{created, dropped}, 100, map[int]int{created: 90, dropped: 10}, true},
		"an Event merged instead of dropped": {[]int{dropped}, 100, map[int]int{dropped: 99, merged: 1}, false},
		"a refilled bucket":                  {[]int{merged}, 100, map[int]int{merged: 98, created: 2}, true},
		"half of a storm stored":             {[]int{merged}, 100, map[int]int{merged: 50, created: 50}, false},
		"a failing server":                   {[]int{merged}, 100, map[int]int{merged: 99, http.StatusInternalServerError: 1}, false},
		"two calls for each Event":           {[]int{created}, 200, map[int]int{created: 100}, false},
		"no webhook calls":                   {[]int{created}, 0, map[int]int{created: 100}, false},
	} {
		s := scenario{want: test.want, webhook: &webhook{}}
		if err := s.check(sample{requests: 100, statuses: test.statuses}, counts{calls: test.calls}); (err == nil) != test.ok {
			t.Errorf("%s: got error %v, want an error: %t", name, err, !test.ok)
		}
	}
	s := scenario{want: []int{created}, webhook: &webhook{}, store: nearRedis}
	if err := s.check(sample{requests: 100, statuses: map[int]int{created: 100}}, counts{calls: 100, alone: 1}); err == nil {
		t.Error("a decision without Redis is no error")
	}
}

func TestFailedCallFailsMeasurement(t *testing.T) {
	failure := errors.New("failure")
	for name, test := range map[string]struct {
		err, want error
		answered  bool
	}{
		"answered":    {nil, nil, true},
		"failed":      {failure, failure, false},
		"unconfirmed": {fmt.Errorf("%w: %w", store.ErrUnconfirmed, failure), nil, false},
		"late":        {context.DeadlineExceeded, nil, false},
	} {
		calls, _, err := measureCalls(t.Context(), 32, 0, func(context.Context, int) error { return test.err })
		if !errors.Is(err, test.want) || (calls > 0) != test.answered {
			t.Errorf("%s: got %d answered calls and error %v, want answered calls: %t, error %v", name, calls, err, test.answered, test.want)
		}
	}
}

func TestLeftoverKeysAreReported(t *testing.T) {
	env, err := newRedisEnv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.close(); err != nil {
			t.Error(err)
		}
	})
	pod, err := captureStoreCalls(t.Context(), defaults(), startupEvent(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for verdict, ok := range map[store.Verdict]bool{store.Admit: false, store.Merge: true, store.Drop: false} {
		c := redisContender{"x", env.decideWith(redisReplicas, perRepeat(pod[0]), verdict)}
		if _, err := env.measure(t.Context(), c, 3, 0); (err == nil) != ok {
			t.Errorf("verdict %v wanted for a repeated Event: got error %v, want an error: %t", verdict, err, !ok)
		}
	}
	stores, stop := env.stores(t.Context(), 1)
	defer stop()
	if err := env.checkAddsNoKeys(t.Context(), stores[0], func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	err = env.checkAddsNoKeys(t.Context(), stores[0], func(ctx context.Context) error { return env.defaultClient.Set(ctx, "left", "", 0).Err() })
	if err == nil || !strings.Contains(err.Error(), "by 1,") {
		t.Errorf("got error %v, want one about 1 key", err)
	}
}

func TestInvalidFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-only both":    `-only "both"`,
		"-seconds NaN":  "-seconds NaN",
		"-objects 999":  "-objects 999",
		"-output=":      "-output",
		"-no-such-flag": "no-such-flag",
	} {
		_, err := parseOptions(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got error %v, want one line with %s", args, err, want)
		}
	}
}
