package main

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/flood"
)

// scenario is one way to treat Events on the API server, under one load. To
// measure something else, add one to scenarios.
type scenario struct {
	// name is the stem of its figures.
	name string
	// webhook is what the API server calls, once for each Event; nil for none.
	webhook *webhook
	// limit is that of a quota of its namespace; nil for no quota.
	limit *v1alpha1.Limit
	// limited is for the API server with the EventRateLimit plugin.
	limited bool
	// sinkEnabled says that its webhook sends copies of all Events to a collector.
	sinkEnabled bool
	// includesSettling says that the settling of what was refused is part of what is measured, so that the
	// scenario has a webhook of its own in each round.
	includesSettling bool
	// event makes the Events.
	event flood.Generator
	// want are the status codes that writes are answered with. A few are stored besides, as
	// buckets refill and as what could not be decided in time is admitted.
	want []int
}

// webhook is a program and its flags for serve beside those that every webhook
// of a test gets.
type webhook struct {
	program program
	flags   []string
}

// program is which program serves a webhook.
type program int

const (
	realWebhook  program = iota // the webhook of this checkout
	plainWebhook                // this program, see plain.go
)

// scenarios are all that is measured, in the order of the table.
func scenarios() []scenario {
	const created, merged, dropped = http.StatusCreated, http.StatusConflict, http.StatusTooManyRequests
	return []scenario{
		{name: "api_none", event: flood.Distinct, want: []int{created}},
		{name: "api_noop", event: flood.Distinct, want: []int{created}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerAllow}}},
		{name: "api_admit", event: flood.Distinct, want: []int{created}, webhook: &webhook{realWebhook, nil}},
		{name: "api_eventratelimit", event: flood.Repeats, want: []int{dropped}, limited: true},
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

// limit is one for all that a quota matches, Warnings like the rest.
func limit(burst, tokens int32, interval time.Duration) *v1alpha1.Limit {
	return &v1alpha1.Limit{
		Name: "all", Burst: burst, Tokens: tokens, WarningReservePercent: new(int32),
		Interval: &v1alpha1.Duration{Duration: metav1.Duration{Duration: interval}},
	}
}

// noTokens leaves nothing after the first Event, so that all are dropped.
func noTokens() *v1alpha1.Limit { return limit(1, 1, 24*time.Hour) }

// wideLimit is that of a wide storm.
func wideLimit() *v1alpha1.Limit { return limit(100, 50, time.Second) }

// eventRateLimit configures the API server's own plugin as client-go limits
// its recorders, a burst of 25 for each source and object, but for the rate:
// client-go's one in 300 seconds is less than the plugin can express.
const eventRateLimit = `apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: SourceAndObject, qps: 1, burst: 25, cacheSize: 4096}
`

// apiRatios adds the ratios that matter to the figures of one round.
func apiRatios(f figures) {
	f.ratio("api_admit_over_noop", "api_admit_per_s", "api_noop_per_s")
	f.ratio("api_merge_over_deny", "api_merge_per_s", "api_deny_per_s")
	f.ratio("api_drop_over_refuse", "api_drop_per_s", "api_refuse_per_s") // with the same Events and status code
	f.ratio("api_drop_sink_over_drop", "api_drop_sink_per_s", "api_drop_per_s")
}
