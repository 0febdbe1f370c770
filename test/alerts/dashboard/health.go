package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// webhookCalls selects the API server's calls of the two webhooks.
const webhookCalls = `name=~"(mutate|validate)[.]events[.]eventquota[.]io"`

// healthRow uses metrics of the replicas and of the API server. A series that is absent during normal operation shows as 0,
// but only if its source was scraped.
func healthRow() row {
	const width = 4
	ok, broken := "green", "red"
	return row{"Is it healthy?", []cog.Builder[dashboard.Panel]{
		numberPanel("Replicas", "Replicas that Prometheus sees. With none, the API server stores all Events.", units.Number, width,
			steps(broken, step{1, ok}),
			query{`count(eventquota_build_info{pod=~"$pod"}) or vector(0)`, "replicas"}).
			Links(runbookLink("When a part is down", "when-a-part-is-down")),
		numberPanel("Failing open", "Webhook calls that failed, so that the API server stored the Event without a decision. Needs the API server's own metrics.", units.RequestsPerSecond, width,
			steps(ok, step{0.001, broken}),
			query{`sum(rate(apiserver_admission_webhook_fail_open_count{` + webhookCalls + `}[$__rate_interval])) or 0 * sum(rate(apiserver_admission_webhook_request_total{` + webhookCalls + `}[$__rate_interval]))`, "calls"}).
			NoValue("API server not seen").
			Links(runbookLink("When a part is down", "when-a-part-is-down")),
		numberPanel("Undecided", "Event writes that were stored without a decision (undecided), or refused because too many had been (overload).", units.RequestsPerSecond, width,
			steps(ok, step{0.001, broken}),
			query{`sum(rate(eventquota_decisions_total{pod=~"$pod", outcome=~"undecided|overload"}[$__rate_interval])) or 0 * count(eventquota_build_info{pod=~"$pod"})`, "writes"}).
			NoValue("no replica"),
		numberPanel("Without Redis", "Replicas that do not ask Redis now, because it did not answer in time. They decide as onStoreFailure of each quota says.", units.Number, width,
			steps(ok, step{1, "orange"}),
			query{`sum(eventquota_store_unavailable{pod=~"$pod"})`, "replicas"}).
			NoValue("no replica").
			Links(runbookLink("When a part is down", "when-a-part-is-down")),
		numberPanel("Certificate expires in", "Time until the serving certificate expires, at the replica where that is soonest.", units.Seconds, width,
			steps(broken, step{24 * 3600, "orange"}, step{7 * 24 * 3600, ok}),
			query{`min(eventquota_certificate_expiry_timestamp_seconds{pod=~"$pod"}) - time()`, "left"}).
			NoValue("no replica").
			Links(runbookLink("When a part is down", "when-a-part-is-down")),
		numberPanel("Alerts", "Alerts about eventquota that fire, if its alert rules are installed.", units.Number, width,
			steps(ok, step{1, broken}),
			query{`count(ALERTS{alertname=~"EventQuota.+", alertstate="firing"}) or vector(0)`, "alerts"}),
		linePanel("Reviews of each replica", "Admission reviews that each replica answered. A new replica gets its share within minutes, because the API server keeps its connections.", units.RequestsPerSecond, third,
			query{`sum by (pod) (rate(eventquota_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{pod}}"}),
		linePanel("Without Redis by replica", "1 while a replica does not ask Redis, because it did not answer in time. A replica that is down has no line.", units.Number, third,
			query{`sum by (pod) (eventquota_store_unavailable{pod=~"$pod"})`, "{{pod}}"}),
		linePanel("Decided without Redis", "Event writes that Redis did not decide in time, by what decided instead.", units.WritesPerSecond, third,
			query{`sum by (by) (rate(eventquota_decisions_without_store_total{pod=~"$pod"}[$__rate_interval]))`, "{{by}}"}).
			NoValue("none").
			Links(runbookLink("When a part is down", "when-a-part-is-down")),
		linePanel("Copies that the sink does not take", "Copies of Events that an output of the sink did not take, by result. eventquota_sink_undelivered_total has the namespaces.", units.WritesPerSecond, third,
			query{`sum by (output, result) (rate(eventquota_sink_records_total{pod=~"$pod", result!="delivered"}[$__rate_interval]))`, "{{output}} {{result}}"}).
			NoValue("no sink").
			Links(runbookLink("A sink for what is merged and dropped", "a-sink-for-what-is-merged-and-dropped")),
	}}
}
