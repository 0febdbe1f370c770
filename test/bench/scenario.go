package main

import "net/http"

// scenario is one way to treat Events on the API server, under one load. To
// measure something else, add one to scenarios.
type scenario struct {
	// name is the stem of its figures.
	name string
	// webhook is what the API server calls in both phases; nil for none.
	webhook *webhook
	// limited is for the API server with the EventRateLimit plugin.
	limited bool
	// event makes the Events.
	event generator
	// want is the answer that all writes get, or, where it is a refusal, all
	// but a few: buckets refill.
	want answer
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
	ours  program = iota // the webhook of this checkout
	plain                // this program, see plain.go
)

// answer is what a write is to be answered.
type answer int

const (
	stored answer = iota
	refused
)

// is tells whether a status code is that answer.
func (a answer) is(status int) bool {
	if a == stored {
		return status == http.StatusCreated
	}
	return status == http.StatusConflict || status == http.StatusTooManyRequests
}

// scenarios are all that is measured, in the order of the table.
func scenarios() []scenario {
	return []scenario{
		{name: "api_none", event: distinct},
		{name: "api_noop", event: distinct, webhook: &webhook{plain, []string{"--answer=" + answerAllow}}},
		{name: "api_admit", event: distinct, webhook: &webhook{ours, nil}},
		{name: "api_storm", event: storm, want: refused, webhook: &webhook{ours, nil}},
		{name: "api_eventratelimit", event: storm, want: refused, limited: true},
		{name: "api_deny", event: storm, want: refused, webhook: &webhook{plain, []string{"--answer=" + answerDeny}}},
	}
}

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
	f.ratio("api_storm_over_none", "api_storm_per_s", "api_none_per_s")
	f.ratio("api_storm_over_deny", "api_storm_per_s", "api_deny_per_s")
	f.ratio("api_storm_over_eventratelimit", "api_storm_per_s", "api_eventratelimit_per_s")
}
