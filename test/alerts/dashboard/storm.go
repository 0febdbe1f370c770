package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// chosen are the Event writes of the replicas, namespaces, policies and quotas that are chosen.
const chosen = `pod=~"$pod", event_namespace=~"$namespace", policy=~"$policy"`

func storming() row {
	return row{"Is there a storm?", []cog.Builder[dashboard.Panel]{
		stacked("Event writes by outcome", "Decided Event writes: admitted, merged into a stored Event, dropped because a bucket was empty, or denied by a policy.", units.WritesPerSecond, half,
			query{`sum by (outcome) (rate(eventquota_events_total{` + chosen + `}[$__rate_interval]))`, "{{outcome}}"}).
			Links(help("A storm is under way", "a-storm-is-under-way")),
		byOutcome(lines("Reviews by phase and outcome", "Answers of the webhook for all namespaces. It decides a CREATE in the mutating phase and an UPDATE in the validating phase.", units.RequestsPerSecond, half,
			query{`sum by (phase, outcome) (rate(eventquota_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{phase}}: {{outcome}}"})),
		lines("Refused by policy or quota", "Event writes dropped or denied, by the policy or quota that decided.", units.WritesPerSecond, third,
			query{`sum by (policy) (rate(eventquota_events_total{` + chosen + `, outcome=~"drop|deny"}[$__rate_interval]))`, "{{policy}}"}).
			NoValue("none"),
		lines("Warnings dropped", "Event writes of type Warning that were dropped or denied, by namespace. To keep them, raise burst or reservePerReason of the spam filter, or warningReservePercent of the quota.", units.WritesPerSecond, third,
			query{`sum by (event_namespace) (rate(eventquota_warnings_dropped_total{pod=~"$pod", event_namespace=~"$namespace"}[$__rate_interval]))`, "{{event_namespace}}"}).
			NoValue("none"),
		byOutcome(lines("What policies and quotas in mode Audit would do", "Event writes that a policy or quota in mode Audit matched, by the outcome that it would have had.", units.WritesPerSecond, third,
			query{`sum by (outcome) (rate(eventquota_audited_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{outcome}}"}).
			NoValue("none in mode Audit")),
	}}
}

func who() row {
	const refused = chosen + `, outcome=~"merge|drop|deny"`
	return row{"Who makes it?", []cog.Builder[dashboard.Panel]{
		ranking("Namespaces", "Namespaces with the most merged, dropped or denied Event writes in the time shown.",
			query{`topk(10, sum by (event_namespace) (increase(eventquota_events_total{` + refused + `}[$__range])))`, "{{event_namespace}}"}).
			Links(help("A storm is under way", "a-storm-is-under-way")),
		ranking("Policies and quotas", "Policies and quotas that merged, dropped or denied the most Event writes in the time shown. Their status names the sources.",
			query{`topk(10, sum by (policy) (increase(eventquota_events_total{` + refused + `}[$__range])))`, "{{policy}}"}),
		cells("Namespaces, policies and quotas", "Event writes in the time shown, by namespace, policy or quota, and outcome: the hundred largest.", third,
			`sort_desc(topk(100, sum by (event_namespace, policy, outcome) (increase(eventquota_events_total{`+chosen+`}[$__range]))))`, "Event writes"),
	}}
}
