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

// stormWriters are how many write Events in a storm.
const stormWriters = 200

// stormScenario is one way to treat a storm of Events on the API server, while the requests of another account are timed. To
// measure another one, add it to storms.
type stormScenario struct {
	// name is in the names of the figures of the other account's requests, and treats in those of the Events that were
	// answered. Without a storm there is no treats.
	name, answerPrefix string
	// nodes says that each writer is a node; otherwise all are one account.
	nodes bool
	// suffix ends the names.
	suffix string

	plane plane
	// webhook is what the API server calls for the Events, as the shipped configuration has it; nil for none.
	webhook *webhook
	// limit is that of a quota of the storm's namespace; nil for no quota.
	limit *v1alpha1.Limit
	// watchers are how many clients watch Events.
	watchers int
	// slow says that another webhook is called for the Events, too.
	slow bool
	// want is the status code that the Events are answered with. Some are stored besides: those that a webhook did not decide
	// in time.
	want int
}

// plane is a control plane.
type plane int

const (
	plainPlane    plane = iota // without priority levels for Event writes
	limitedPlane               // the same with the EventRateLimit plugin
	priorityPlane              // with the priority levels that are shipped
)

// stormScenarios are all, in the order of the table.
func stormScenarios() []stormScenario {
	const created, dropped = http.StatusCreated, http.StatusTooManyRequests
	drops, denies := &webhook{realWebhook, []string{"--deadline=200ms"}}, &webhook{plainWebhook, []string{"--answer=" + answerDrop}}
	lane := stormScenario{name: "lane", answerPrefix: "lane", plane: priorityPlane, want: created}
	both := stormScenario{name: "both", answerPrefix: "lane_drop", plane: priorityPlane, webhook: drops, limit: noTokens(), want: dropped}
	// Those that are compared are neighbors.
	all := []stormScenario{
		{name: "quiet"},
		{name: "none", answerPrefix: "none", want: created},
		{name: "eventratelimit", answerPrefix: "eventratelimit", plane: limitedPlane, want: dropped},
		{name: "deny", answerPrefix: "deny", webhook: denies, want: dropped},
		{name: "webhook", answerPrefix: "drop", webhook: drops, limit: noTokens(), want: dropped},
		lane,
		{name: "lane_deny", answerPrefix: "lane_deny", plane: priorityPlane, webhook: denies, want: dropped},
		both,
	}
	nodes := slices.DeleteFunc(slices.Clone(all), func(s stormScenario) bool { return s.webhook == denies })
	for i := range nodes {
		nodes[i].nodes = true
	}
	also := slices.DeleteFunc(slices.Clone(all), func(s stormScenario) bool {
		return !slices.Contains([]string{"none", "deny", "webhook", "both"}, s.name)
	})
	for _, watchers := range []int{20, 100} {
		for _, watched := range also {
			watched.watchers, watched.suffix = watchers, fmt.Sprint("_watchers", watchers)
			all = append(all, watched)
		}
	}
	for _, slowed := range append(also, lane) {
		slowed.slow, slowed.suffix = true, "_slow_webhook"
		all = append(all, slowed)
	}
	return append(all, nodes...)
}

// bystanderFigure names a figure of the other account's requests.
func (s stormScenario) bystanderFigure(what string) string {
	return "bystander_" + s.writers() + s.name + "_" + what + s.suffix
}

// answerFigure names a figure of the Events.
func (s stormScenario) answerFigure(what string) string {
	return "api200_" + s.writers() + s.answerPrefix + "_" + what + s.suffix
}

func (s stormScenario) writers() string {
	if s.nodes {
		return "nodes_"
	}
	return ""
}

// title names the storm in a table.
func (s stormScenario) title() string { return s.writers() + s.name + s.suffix }

// namespace is where the Events go.
func (s stormScenario) namespace() string { return "storm-" + strings.ReplaceAll(s.title(), "_", "-") }

// plan says who writes.
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

// stormSlice is what was seen in a slice of time.
type stormSlice struct {
	p50, p99         float64 // of the other account's requests, in milliseconds; the p99 of fewer than 100 is the slowest
	requests, failed int     // of the other account
	lastError        error   // of one that failed
	events           flood.Result
	failures         int64 // of webhook calls
}

func bystanderSlice(served bystander.Result) stormSlice {
	return stormSlice{
		p50: served.Milliseconds(0.5), p99: served.Milliseconds(0.99),
		requests: served.Requests, failed: served.Failed, lastError: served.Err,
	}
}

// check fails where the Events were not answered as the storm wants: then it is not what was measured.
func (s stormScenario) check(seen stormSlice) error {
	if seen.requests == 0 {
		return fmt.Errorf("%s: no request of others was made", s.title())
	}
	if s.answerPrefix == "" {
		return nil
	}
	for status, n := range seen.events.Answers {
		if status != s.want && status != http.StatusCreated {
			return fmt.Errorf("%s: %d of %d Events were answered with status %d", s.title(), n, seen.events.Answered(), status)
		}
	}
	wanted, all := seen.events.Answers[s.want], seen.events.Answered()
	if wanted == 0 || wanted < all/2 && seen.failures == 0 {
		return fmt.Errorf("%s: %d of %d Events were answered with status %d", s.title(), wanted, all, s.want)
	}
	return nil
}

// figures adds what one slice says, and to totals what is summed over all rounds: a median would hide what fails in one of them.
func (s stormScenario) figures(seen stormSlice, to, totals figures) {
	to[s.bystanderFigure("p50_ms")], to[s.bystanderFigure("p99_ms")] = seen.p50, seen.p99
	totals[s.bystanderFigure("failed")] += float64(seen.failed)
	totals[s.bystanderFigure("requests")] += float64(seen.requests)
	if s.webhook != nil || s.slow {
		totals[s.bystanderFigure("webhook_failures")] += float64(seen.failures)
	}
	if s.answerPrefix == "" {
		return
	}
	to[s.answerFigure("per_s")] = seen.events.PerSecond()
	totals[s.answerFigure("rejected")] += float64(seen.events.Rejected)
	totals[s.answerFigure("lost")] += float64(seen.events.Lost)
}
