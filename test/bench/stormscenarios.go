package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/bystander"
	"github.com/eventquota/eventquota/test/flood"
)

// stormWriters is the number of clients that write Events in a storm.
const stormWriters = 200

// stormScenario is a way to treat a storm of Events on the API server, while the requests of another account are timed. To measure
// another one, add it to stormScenarios.
type stormScenario struct {
	// name is part of the names of the figures about the other account's requests, and answerPrefix of those about the storm's
	// Events. Without a storm, answerPrefix is empty.
	name, answerPrefix string
	// nodes makes each writer a different node. Otherwise all writers are one service account.
	nodes bool
	// suffix is appended to the names of the figures.
	suffix string

	plane plane
	// webhook is called for the storm's Events, according to the shipped configuration; nil for none.
	webhook *webhook
	// limit is the only limit of the quota in the storm's namespace; nil for no quota.
	limit *v1alpha1.Limit
	// watchers is the number of clients that watch Events.
	watchers int
	// slow adds slowWebhook for the Events.
	slow bool
	// want is the expected status code of the Events. Events that a webhook does not decide in time are stored.
	want int
}

// plane selects a control plane.
type plane int

const (
	plainPlane    plane = iota // without priority levels for Event writes
	limitedPlane               // the same, with the EventRateLimit plugin
	priorityPlane              // with the shipped priority levels
)

// stormScenarios returns all storms, in the order of the table.
func stormScenarios() []stormScenario {
	const created, dropped = http.StatusCreated, http.StatusBadRequest
	drops, denies := &webhook{realWebhook, []string{"--deadline=200ms"}}, &webhook{plainWebhook, []string{"--answer=" + answerDrop}}
	levels := stormScenario{name: "lane", answerPrefix: "lane", plane: priorityPlane, want: created}
	both := stormScenario{name: "both", answerPrefix: "lane_drop", plane: priorityPlane, webhook: drops, limit: noTokens(), want: dropped}
	// Storms that are compared with each other are neighbors, so that little time passes between their slices.
	all := []stormScenario{
		{name: "quiet"},
		{name: "none", answerPrefix: "none", want: created},
		{name: "eventratelimit", answerPrefix: "eventratelimit", plane: limitedPlane, want: http.StatusTooManyRequests},
		{name: "deny", answerPrefix: "deny", webhook: denies, want: dropped},
		{name: "webhook", answerPrefix: "drop", webhook: drops, limit: noTokens(), want: dropped},
		levels,
		{name: "lane_deny", answerPrefix: "lane_deny", plane: priorityPlane, webhook: denies, want: dropped},
		both,
	}
	nodes := slices.DeleteFunc(slices.Clone(all), func(s stormScenario) bool { return s.webhook == denies })
	for i := range nodes {
		nodes[i].nodes = true
	}
	varied := slices.DeleteFunc(slices.Clone(all), func(s stormScenario) bool {
		return !slices.Contains([]string{"none", "deny", "webhook", "both"}, s.name)
	})
	for _, watchers := range []int{20, 100} {
		for _, watched := range varied {
			watched.watchers, watched.suffix = watchers, fmt.Sprint("_watchers", watchers)
			all = append(all, watched)
		}
	}
	for _, slowed := range append(varied, levels) {
		slowed.slow, slowed.suffix = true, "_slow_webhook"
		all = append(all, slowed)
	}
	return append(all, nodes...)
}

// bystanderFigure returns the name of a figure about the other account's requests.
func (s stormScenario) bystanderFigure(figure string) string {
	return "bystander_" + s.writers() + s.name + "_" + figure + s.suffix
}

// answerFigure returns the name of a figure about the storm's Events.
func (s stormScenario) answerFigure(figure string) string {
	return "api200_" + s.writers() + s.answerPrefix + "_" + figure + s.suffix
}

// writers returns the part of names that says who writes.
func (s stormScenario) writers() string {
	if s.nodes {
		return "nodes_"
	}
	return ""
}

// title returns the storm's name in tables and errors.
func (s stormScenario) title() string { return s.writers() + s.name + s.suffix }

// namespace returns the namespace of the storm's Events.
func (s stormScenario) namespace() string { return "storm-" + strings.ReplaceAll(s.title(), "_", "-") }

// plan returns the load of the storm.
func (s stormScenario) plan() flood.Plan {
	p := flood.Plan{Namespace: s.namespace(), Writers: stormWriters, Users: []flood.User{flood.ServiceAccount(s.namespace(), "noisy")}}
	if s.nodes {
		p.Users = make([]flood.User, stormWriters)
		for i := range p.Users {
			p.Users[i] = flood.Node(i)
		}
	}
	return p
}

// stormSlice is the result of one slice.
type stormSlice struct {
	p50, p99         float64 // latency of the other account's requests in milliseconds; with fewer than 100, p99 is the slowest
	requests, failed int     // requests of the other account
	lastError        error   // error of the last failed request, or nil
	events           flood.Result
	failures         int64 // failed webhook calls
}

func bystanderSlice(served bystander.Result) stormSlice {
	return stormSlice{
		p50: served.Milliseconds(0.5), p99: served.Milliseconds(0.99),
		requests: served.Requests, failed: served.Failed, lastError: served.Err,
	}
}

// check returns an error if too many Events got an unexpected status. The measurement is then invalid.
func (s stormScenario) check(seen stormSlice) error {
	if seen.requests == 0 {
		return fmt.Errorf("%s: the other account made no request", s.title())
	}
	if s.answerPrefix == "" {
		return nil
	}
	for status, n := range seen.events.Answers {
		if status != s.want && status != http.StatusCreated {
			return fmt.Errorf("%s: %d of %d Events got status %d, want %d or 201", s.title(), n, seen.events.Answered(), status, s.want)
		}
	}
	wanted, all := seen.events.Answers[s.want], seen.events.Answered()
	if wanted == 0 || wanted < all/2 && seen.failures == 0 {
		return fmt.Errorf("%s: only %d of %d Events got status %d", s.title(), wanted, all, s.want)
	}
	return nil
}

// figures adds the figures of one slice to result. Counts of failures go to totals, because a median would hide failures in a single round.
func (s stormScenario) figures(seen stormSlice, result, totals figures) {
	result[s.bystanderFigure("p50_ms")], result[s.bystanderFigure("p99_ms")] = seen.p50, seen.p99
	totals[s.bystanderFigure("failed")] += float64(seen.failed)
	totals[s.bystanderFigure("requests")] += float64(seen.requests)
	if s.webhook != nil || s.slow {
		totals[s.bystanderFigure("webhook_failures")] += float64(seen.failures)
	}
	if s.answerPrefix == "" {
		return
	}
	result[s.answerFigure("per_s")] = seen.events.PerSecond()
	totals[s.answerFigure("rejected")] += float64(seen.events.Rejected)
	totals[s.answerFigure("lost")] += float64(seen.events.Lost)
}
