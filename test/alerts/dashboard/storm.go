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
		stacked("Event writes by outcome", "Event writes decided: admitted, merged into a stored Event, dropped over a bucket, or denied as the policy says.", units.WritesPerSecond, half,
			query{`sum by (outcome) (rate(eventquota_events_total{` + chosen + `}[$__rate_interval]))`, "{{outcome}}"}).
			Links(help("A storm is under way", "a-storm-is-under-way")),
		byOutcome(lines("Reviews by phase and outcome", "What the webhook answered, of all namespaces: a CREATE is decided in the mutating phase, an UPDATE in the validating one.", units.RequestsPerSecond, half,
			query{`sum by (phase, outcome) (rate(eventquota_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{phase}}: {{outcome}}"})),
		lines("Refused by policy or quota", "Event writes dropped or denied, by the policy or quota that decided.", units.WritesPerSecond, third,
			query{`sum by (policy) (rate(eventquota_events_total{` + chosen + `, outcome=~"drop|deny"}[$__rate_interval]))`, "{{policy}}"}).
			NoValue("none"),
		lines("Warnings dropped", "Event writes of type Warning that were dropped or denied, by namespace. A larger burst or reservePerReason of a spam filter, or warningReservePercent of a quota, keeps them.", units.WritesPerSecond, third,
			query{`sum by (event_namespace) (rate(eventquota_warnings_dropped_total{pod=~"$pod", event_namespace=~"$namespace"}[$__rate_interval]))`, "{{event_namespace}}"}).
			NoValue("none"),
		byOutcome(lines("What audited policies and quotas would do", "Event writes that a policy or quota in mode Audit looked at, by what it would have done.", units.WritesPerSecond, third,
			query{`sum by (outcome) (rate(eventquota_audited_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{outcome}}"}).
			NoValue("none is audited")),
	}}
}

func who() row {
	const refused = chosen + `, outcome=~"merge|drop|deny"`
	return row{"Who makes it?", []cog.Builder[dashboard.Panel]{
		ranking("Namespaces", "Namespaces with most merged, dropped or denied Event writes in the time shown.",
			query{`topk(10, sum by (event_namespace) (increase(eventquota_events_total{` + refused + `}[$__range])))`, "{{event_namespace}}"}).
			Links(help("A storm is under way", "a-storm-is-under-way")),
		ranking("Policies and quotas", "Policies and quotas that merged, dropped or denied most Event writes in the time shown. Their status names the sources.",
			query{`topk(10, sum by (policy) (increase(eventquota_events_total{` + refused + `}[$__range])))`, "{{policy}}"}),
		cells("Namespaces, policies and quotas", "The hundred largest parts of all Event writes in the time shown.", third,
			`sort_desc(topk(100, sum by (event_namespace, policy, outcome) (increase(eventquota_events_total{`+chosen+`}[$__range]))))`, "Event writes"),
	}}
}
