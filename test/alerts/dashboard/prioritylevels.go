package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Matchers for the shipped priority levels for Event writes, and for all other levels.
const (
	eventLevels = `priority_level=~"events|events-system"`
	otherLevels = `priority_level!~"events|events-system"`
)

// slownessRow uses the API server's metrics of priority and fairness. Each API server has its own seats and queues for a
// level, and a client stays connected to one API server. So waits and seats are those of the API server with the highest
// value: a sum or average would hide one that is full.
func slownessRow() row {
	const inUse = `sum by (instance, priority_level) (apiserver_flowcontrol_current_executing_seats{`
	return row{"Does it slow anyone else down?", []cog.Builder[dashboard.Panel]{
		withThreshold(linePanel("Wait of other requests", "How long requests of each other priority level waited for a seat (p99), at the API server where that is longest. A storm of Events must not raise it. During a storm, an alert fires above 1 s.", units.Seconds, third,
			query{waitQuantile("0.99", otherLevels), "{{priority_level}}"}), 1).
			NoValue("API server not seen").
			Links(runbookLink("A storm is under way", "a-storm-is-under-way")),
		linePanel("Other requests rejected", "Requests of other priority levels that got 429, by reason. concurrency-limit or queue-full: there was no room. time-out: they waited too long. Sum over all API servers.", units.RequestsPerSecond, third,
			query{rejectedRate(otherLevels), "{{priority_level}}: {{reason}}"}).
			NoValue("none"),
		linePanel("Seats in use of each priority level", "Share of its seats that each priority level uses, including borrowed ones, at the API server where that is most. At 100 %, further requests wait.", units.PercentUnit, third,
			query{`max by (priority_level) (` + inUse + `priority_level!="exempt"}) / sum by (instance, priority_level) (apiserver_flowcontrol_current_limit_seats{priority_level!="exempt"}))`, "{{priority_level}}"}).
			NoValue("API server not seen"),
		linePanel("Seats of Event writes", "Seats that Event writes use, at the API server where that is most, and the seats that one API server has for them.", units.Number, quarter,
			query{`max by (priority_level) (` + inUse + eventLevels + `}))`, "{{priority_level}}: in use"},
			query{`max by (priority_level) (apiserver_flowcontrol_nominal_limit_seats{` + eventLevels + `})`, "{{priority_level}}: all"}).
			NoValue("no such level seen"),
		linePanel("Event writes that wait", "Event writes in the queues of their priority levels, by FlowSchema. Sum over all API servers.", units.Number, quarter,
			query{`sum by (flow_schema) (apiserver_flowcontrol_current_inqueue_requests{` + eventLevels + `})`, "{{flow_schema}}"}).
			NoValue("no such level seen"),
		withThreshold(linePanel("Wait of Event writes", "How long Event writes waited for a seat, at the API server where that is longest. The API server rejects them after a quarter of --request-timeout, 15 s by default. An alert fires when the p99 is above 5 s.", units.Seconds, quarter,
			query{waitQuantile("0.5", eventLevels), "{{priority_level}} p50"},
			query{waitQuantile("0.99", eventLevels), "{{priority_level}} p99"}), 5).
			NoValue("no such level seen"),
		linePanel("Event writes rejected", "Event writes that got 429 before they reached the webhook, by reason. queue-full: a client has more requests in flight than its queues hold. time-out: no seat became free in time. Clients retry, and may then lose the Event. Sum over all API servers.", units.WritesPerSecond, quarter,
			query{rejectedRate(eventLevels), "{{priority_level}}: {{reason}}"}).
			NoValue("none"),
	}}
}

// waitQuantile returns a quantile of the time that executed requests of the levels waited for a seat. A request that finds its queue
// full counts as a wait of 0 s, with execute="false".
func waitQuantile(quantile, levels string) string {
	return `max by (priority_level) (histogram_quantile(` + quantile + `, sum by (le, instance, priority_level) (rate(apiserver_flowcontrol_request_wait_duration_seconds_bucket{` + levels + `, execute="true"}[$__rate_interval]))))`
}

func rejectedRate(levels string) string {
	return `sum by (priority_level, reason) (rate(apiserver_flowcontrol_rejected_requests_total{` + levels + `}[$__rate_interval]))`
}
