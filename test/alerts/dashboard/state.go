package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

func savingsRow() row {
	return row{"What does it save?", []cog.Builder[dashboard.Panel]{
		numberPanel("Writes to etcd saved", "Event writes refused in the time shown, minus the writes of the settler, which writes merged counts and notices.", units.Short, 6,
			steps("blue"),
			query{`sum(increase(eventquota_decisions_total{pod=~"$pod", outcome=~"merge|drop|deny|overload"}[$__range])) - (sum(increase(eventquota_settler_writes_total{pod=~"$pod", result="written"}[$__range])) or vector(0))`, "writes"}).
			Decimals(0).NoValue("no replica").Height(tall),
		linePanel("Writes to etcd", "Writes that etcd was spared, and those that the settler made instead: counts and notices.", units.WritesPerSecond, 18,
			query{`sum(rate(eventquota_decisions_total{pod=~"$pod", outcome=~"merge|drop|deny|overload"}[$__rate_interval]))`, "saved"},
			query{`sum(rate(eventquota_settler_writes_total{pod=~"$pod", result="written"}[$__rate_interval]))`, "written by the settler"}),
	}}
}

func pendingRow() row {
	return row{"What waits?", []cog.Builder[dashboard.Panel]{
		linePanel("Pending counts and notices", "Pairs of source and object, and quotas, with counts or notices that are not yet written to the API server, due or not. Only the leader shows those in Redis.", units.Number, third,
			query{`sum by (store) (eventquota_settler_pending{pod=~"$pod"})`, "{{store}}"}).
			NoValue("not known"),
		withThreshold(linePanel("Delay of writes", "Delay of writes of counts and notices after they fell due. An alert fires when a tenth is more than 30 s late.", units.Seconds, third,
			query{`histogram_quantile(0.5, sum by (le) (rate(eventquota_settler_write_lag_seconds_bucket{pod=~"$pod"}[$__rate_interval])))`, "p50"},
			query{`histogram_quantile(0.99, sum by (le) (rate(eventquota_settler_write_lag_seconds_bucket{pod=~"$pod"}[$__rate_interval])))`, "p99"}), 30),
		linePanel("Writes of the settler", "not_found: the Event was deleted. name_taken: another Event has its name. rejected: the API server refuses it for good. retried, failed: it will be tried again. given_up: nothing reports it.", units.WritesPerSecond, third,
			query{`sum by (result) (rate(eventquota_settler_writes_total{pod=~"$pod"}[$__rate_interval]))`, "{{result}}"}),
		linePanel("Reports to Redis", "Decisions that replicas made without Redis, or without asking it: decisions per second, and pairs of source and object and quotas that Redis has not received yet.", units.Number, half,
			query{`sum(rate(eventquota_backlog_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "reported per second"},
			query{`sum(eventquota_backlog_entries{pod=~"$pod"})`, "waiting"}).
			NoValue("none"),
		linePanel("Occurrences lost", "Occurrences of Events that nothing reports. given up: they could not be written to the API server for an hour or were rejected, or their namespace is deleted. not reported: a replica had no memory left for them.", units.Number, half,
			query{`sum(increase(eventquota_settler_lost_occurrences_total{pod=~"$pod"}[$__rate_interval]))`, "given up"},
			query{`sum(increase(eventquota_backlog_lost_occurrences_total{pod=~"$pod"}[$__rate_interval]))`, "not reported"}),
	}}
}

func latencyRow() row {
	return row{"How fast is it?", []cog.Builder[dashboard.Panel]{
		withThreshold(linePanel("Time for a review", "Time to answer a review, by phase. The webhook decides within --deadline, 200 ms by default, and the API server gives up a call after 1 s.", units.Seconds, third,
			query{`histogram_quantile(0.5, sum by (le, phase) (rate(eventquota_review_duration_seconds_bucket{pod=~"$pod"}[$__rate_interval])))`, "{{phase}} p50"},
			query{`histogram_quantile(0.99, sum by (le, phase) (rate(eventquota_review_duration_seconds_bucket{pod=~"$pod"}[$__rate_interval])))`, "{{phase}} p99"}), 1),
		linePanel("Time for a call of the store", "Time that Redis, or the memory of the replica, took for each step. No Event waits longer than --store-deadline.", units.Seconds, third,
			query{`histogram_quantile(0.5, sum by (le, store, step) (rate(eventquota_store_duration_seconds_bucket{pod=~"$pod"}[$__rate_interval])))`, "{{store}} {{step}} p50"},
			query{`histogram_quantile(0.99, sum by (le, store, step) (rate(eventquota_store_duration_seconds_bucket{pod=~"$pod"}[$__rate_interval])))`, "{{store}} {{step}} p99"}),
		linePanel("Errors of the store", "Failed calls to a store, by step and reason.", units.OpsPerSecond, third,
			query{`sum by (store, step, reason) (rate(eventquota_store_errors_total{pod=~"$pod"}[$__rate_interval]))`, "{{store}} {{step}}: {{reason}}"}).
			NoValue("none"),
	}}
}

// maintenanceRow has panels about certificates, policies, quotas and versions, which need attention now and then.
func maintenanceRow() row {
	return row{"Certificate, policies, quotas and versions", []cog.Builder[dashboard.Panel]{
		withThreshold(linePanel("Certificate of each replica", "Time until it expires. An alert fires below 7 days.", units.Seconds, quarter,
			query{`eventquota_certificate_expiry_timestamp_seconds{pod=~"$pod"} - time()`, "{{pod}}"}), 7*24*3600),
		linePanel("Policies and quotas", "Policies and quotas, by result for their newest generation. After a rejection the last valid one stays in force; the status says why.", units.Number, quarter,
			query{`max by (result) (eventquota_policies{pod=~"$pod"})`, "{{result}}"}),
		linePanel("Conditions that fail", "Conditions and globs that could not be evaluated for an Event write, by namespace. A policy does not match then, and a quota applies. Its status has an example.", units.WritesPerSecond, quarter,
			query{`sum by (event_namespace, policy) (rate(eventquota_condition_errors_total{pod=~"$pod", event_namespace=~"$namespace", policy=~"$policy"}[$__rate_interval]))`, "{{event_namespace}}: {{policy}}"}).
			NoValue("none"),
		tablePanel("Versions", "Versions that the replicas run. Two versions are normal only during a rollout.", quarter,
			`count by (version) (eventquota_build_info{pod=~"$pod"})`, "replicas"),
	}}
}
