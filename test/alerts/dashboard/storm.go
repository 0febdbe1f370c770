package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// selectedWrites selects the Event writes of the chosen replicas, namespaces, policies and quotas.
const selectedWrites = `pod=~"$pod", event_namespace=~"$namespace", policy=~"$policy"`

func stormRow() row {
	return row{"Is there a storm?", []cog.Builder[dashboard.Panel]{
		stackedPanel("Event writes by outcome", "Decided Event writes: admitted, merged into a stored Event, dropped because a bucket was empty, or denied by a policy.", units.WritesPerSecond, half,
			query{`sum by (outcome) (rate(eventquota_events_total{` + selectedWrites + `}[$__rate_interval]))`, "{{outcome}}"}).
			Links(runbookLink("A storm is under way", "a-storm-is-under-way")),
		withOutcomeColours(linePanel("Reviews by phase and outcome", "Answers of the webhook for all namespaces. It decides a CREATE in the mutating phase and an UPDATE in the validating phase.", units.RequestsPerSecond, half,
			query{`sum by (phase, outcome) (rate(eventquota_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{phase}}: {{outcome}}"})),
		linePanel("Refused by policy or quota", "Event writes dropped or denied, by the policy or quota that decided.", units.WritesPerSecond, third,
			query{`sum by (policy) (rate(eventquota_events_total{` + selectedWrites + `, outcome=~"drop|deny"}[$__rate_interval]))`, "{{policy}}"}).
			NoValue("none"),
		linePanel("Warnings dropped", "Event writes of type Warning that were dropped or denied, by namespace. To keep them, raise burst or reservePerReason of the spam filter, or warningReservePercent of the quota.", units.WritesPerSecond, third,
			query{`sum by (event_namespace) (rate(eventquota_warnings_dropped_total{pod=~"$pod", event_namespace=~"$namespace"}[$__rate_interval]))`, "{{event_namespace}}"}).
			NoValue("none"),
		withOutcomeColours(linePanel("Decisions in mode Audit", "Event writes that a policy or quota in mode Audit matched, by the outcome that it would have had.", units.WritesPerSecond, third,
			query{`sum by (outcome) (rate(eventquota_audited_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{outcome}}"}).
			NoValue("none in mode Audit")),
	}}
}

func sourcesRow() row {
	const refused = selectedWrites + `, outcome=~"merge|drop|deny"`
	return row{"Who makes it?", []cog.Builder[dashboard.Panel]{
		rankingPanel("Namespaces", "Namespaces with the most merged, dropped or denied Event writes in the time shown.",
			query{`topk(10, sum by (event_namespace) (increase(eventquota_events_total{` + refused + `}[$__range])))`, "{{event_namespace}}"}).
			Links(runbookLink("A storm is under way", "a-storm-is-under-way")),
		rankingPanel("Policies and quotas", "Policies and quotas that merged, dropped or denied the most Event writes in the time shown. Their status names the sources.",
			query{`topk(10, sum by (policy) (increase(eventquota_events_total{` + refused + `}[$__range])))`, "{{policy}}"}),
		tablePanel("Namespaces, policies and quotas", "Event writes in the time shown, by namespace, policy or quota, and outcome: the hundred largest.", third,
			`sort_desc(topk(100, sum by (event_namespace, policy, outcome) (increase(eventquota_events_total{`+selectedWrites+`}[$__range]))))`, "Event writes"),
	}}
}
