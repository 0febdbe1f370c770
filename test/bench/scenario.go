package main

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/flood"
)

// scenario is a load on the API server together with a way to treat its Events. To measure another one, add it to scenarios or serialScenarios.
type scenario struct {
	// name is the prefix of its figures' names.
	name string
	// webhook is the webhook that the API server calls once for each Event, or nil.
	webhook *webhook
	// limit is the only limit of the namespace's quota; nil for no quota.
	limit *v1alpha1.Limit
	// limited selects the API server with the EventRateLimit plugin.
	limited bool
	// store is the store of the webhook.
	store storeKind
	// serial makes a single writer write the Events, one after another.
	serial bool
	// sinkEnabled makes the webhook send copies of all Events to a collector.
	sinkEnabled bool
	// includesSettling makes the writes of pending counts and notices part of the measurement. Such a scenario does not take turns
	// with others.
	includesSettling bool
	// event generates the Events.
	event flood.Generator
	// want has the expected status codes. A few writes may be stored instead, because buckets refill and the API server admits an
	// Event that is not decided in time.
	want []int
}

// webhook is a program that serves a webhook, and its additional flags.
type webhook struct {
	program program
	flags   []string
}

// program selects the program that serves a webhook.
type program int

const (
	realWebhook  program = iota // the webhook of this checkout
	plainWebhook                // this program, with a plainHandler
)

// scenarios returns the scenarios of many writers, in the order of the table.
func scenarios() []scenario {
	const created, merged, dropped = http.StatusCreated, http.StatusConflict, http.StatusBadRequest
	return []scenario{
		{name: "api_none", event: flood.Distinct, want: []int{created}},
		{name: "api_noop", event: flood.Distinct, want: []int{created}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerAllow}}},
		{name: "api_reads", event: flood.Distinct, want: []int{created}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerRead}}},
		{name: "api_patch1", event: flood.Distinct, want: []int{created}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerPatch}}},
		{name: "api_admit", event: flood.Distinct, want: []int{created}, webhook: &webhook{realWebhook, nil}},
		{name: "api_eventratelimit", event: flood.Repeats, want: []int{http.StatusTooManyRequests}, limited: true},
		{name: "api_deny", event: flood.Repeats, want: []int{merged}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerDeny}}},
		{name: "api_refuse", event: flood.Distinct, want: []int{dropped}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerDrop}}},
		{name: "api_merge", event: flood.Repeats, want: []int{merged}, webhook: &webhook{realWebhook, nil}},
		{
			name: "api_drop", event: flood.Distinct, want: []int{dropped}, webhook: &webhook{realWebhook, nil},
			limit: noTokens(),
		},
		{
			name: "api_drop_sink", event: flood.Distinct, want: []int{dropped}, webhook: &webhook{realWebhook, nil},
			limit: noTokens(), sinkEnabled: true,
		},
		{
			name: "api_wide", includesSettling: true, event: flood.Wide, want: []int{created, dropped}, webhook: &webhook{realWebhook, nil},
			limit: wideLimit(),
		},
	}
}

// limit returns a limit for all Events that a quota matches, without a reserve for Warnings.
func limit(burst, tokens int32, interval time.Duration) *v1alpha1.Limit {
	return &v1alpha1.Limit{
		Name: "all", Burst: burst, Tokens: tokens, WarningReservePercent: new(int32),
		Interval: &v1alpha1.Duration{Duration: metav1.Duration{Duration: interval}},
	}
}

// noTokens returns a limit that drops all Events after the first one, for a day.
func noTokens() *v1alpha1.Limit { return limit(1, 1, 24*time.Hour) }

// wideLimit returns the limit of a wide storm.
func wideLimit() *v1alpha1.Limit { return limit(100, 50, time.Second) }

// eventRateLimit configures the EventRateLimit plugin with a burst of 25 for each source and object, as client-go limits its recorders.
// The rate is higher, because the plugin cannot express client-go's rate of one Event in 300 seconds.
const eventRateLimit = `apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: SourceAndObject, qps: 1, burst: 25, cacheSize: 4096}
`

// apiRatios adds the ratios between scenarios to the figures of one round.
func apiRatios(f figures) {
	f.ratio("api_admit_over_noop", "api_admit_per_s", "api_noop_per_s")
	f.ratio("api_reads_over_noop", "api_reads_per_s", "api_noop_per_s")
	f.ratio("api_patch1_over_noop", "api_patch1_per_s", "api_noop_per_s")
	f.ratio("api_merge_over_deny", "api_merge_per_s", "api_deny_per_s")
	f.ratio("api_drop_over_refuse", "api_drop_per_s", "api_refuse_per_s") // the same Events and status code
	f.ratio("api_drop_sink_over_drop", "api_drop_sink_per_s", "api_drop_per_s")
}
