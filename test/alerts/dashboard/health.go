package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// calls are the API server's calls of the two webhooks.
const calls = `name=~"(mutate|validate)[.]events[.]eventquota[.]io"`

// healthy answers from the replicas' own view and from the API server's. What is absent
// while all is well is 0, but only where somebody was there to count it.
func healthy() row {
	const width = 4
	ok, broken := "green", "red"
	return row{"Is it healthy?", []cog.Builder[dashboard.Panel]{
		number("Replicas", "Replicas that Prometheus sees. With none, the API server stores all Events.", units.Number, width,
			steps(broken, step{1, ok}),
			query{`count(eventquota_build_info{pod=~"$pod"}) or vector(0)`, "replicas"}).
			Links(help("When a part is down", "when-a-part-is-down")),
		number("Failing open", "Calls that the API server gave up, so that the Event was stored unasked. Needs the API server's own metrics.", units.RequestsPerSecond, width,
			steps(ok, step{0.001, broken}),
			query{`sum(rate(apiserver_admission_webhook_fail_open_count{` + calls + `}[$__rate_interval])) or 0 * sum(rate(apiserver_admission_webhook_request_total{` + calls + `}[$__rate_interval]))`, "calls"}).
			NoValue("API server not seen").
			Links(help("When a part is down", "when-a-part-is-down")),
		number("Undecided", "Event writes that passed without a decision (undecided), or were refused because too many passed so (overload).", units.RequestsPerSecond, width,
			steps(ok, step{0.001, broken}),
			query{`sum(rate(eventquota_decisions_total{pod=~"$pod", outcome=~"undecided|overload"}[$__rate_interval])) or 0 * count(eventquota_build_info{pod=~"$pod"})`, "writes"}).
			NoValue("no replica"),
		number("Without Redis", "Replicas that do not ask Redis at the moment, and decide as each quota's onStoreFailure says.", units.Number, width,
			steps(ok, step{1, "orange"}),
			query{`sum(eventquota_store_unavailable{pod=~"$pod"})`, "replicas"}).
			NoValue("no replica").
			Links(help("When a part is down", "when-a-part-is-down")),
		number("Certificate expires in", "The time that is left of the serving certificate, of the replica where it is least.", units.Seconds, width,
			steps(broken, step{24 * 3600, "orange"}, step{7 * 24 * 3600, ok}),
			query{`min(eventquota_certificate_expiry_timestamp_seconds{pod=~"$pod"}) - time()`, "left"}).
			NoValue("no replica").
			Links(help("When a part is down", "when-a-part-is-down")),
		number("Alerts", "Alerts about eventquota that fire, where its alert rules are installed.", units.Number, width,
			steps(ok, step{1, broken}),
			query{`count(ALERTS{alertname=~"EventQuota.+", alertstate="firing"}) or vector(0)`, "alerts"}),
		lines("Reviews of each replica", "Admission reviews that each replica answered. They spread within minutes of a start: the API server keeps its connections.", units.RequestsPerSecond, third,
			query{`sum by (pod) (rate(eventquota_decisions_total{pod=~"$pod"}[$__rate_interval]))`, "{{pod}}"}),
		lines("Without Redis by replica", "1 while a replica does not ask Redis, as it did not answer in time. Nothing of a replica that is not there.", units.Number, third,
			query{`sum by (pod) (eventquota_store_unavailable{pod=~"$pod"})`, "{{pod}}"}),
		lines("Decided without Redis", "Event writes that Redis did not decide in time, by what decided instead.", units.WritesPerSecond, third,
			query{`sum by (by) (rate(eventquota_decisions_without_store_total{pod=~"$pod"}[$__rate_interval]))`, "{{by}}"}).
			NoValue("none").
			Links(help("When a part is down", "when-a-part-is-down")),
		lines("Copies that the sink does not take", "Copies of Events that an output of the sink has not taken, by what became of them. eventquota_sink_undelivered_total has the namespaces.", units.WritesPerSecond, third,
			query{`sum by (output, result) (rate(eventquota_sink_records_total{pod=~"$pod", result!="delivered"}[$__rate_interval]))`, "{{output}} {{result}}"}).
			NoValue("no sink").
			Links(help("A sink for what is merged and dropped", "a-sink-for-what-is-merged-and-dropped")),
	}}
}
