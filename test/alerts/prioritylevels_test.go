package alerts

import (
	"testing"
	"time"
)

// quietLevels are the priority levels of two API servers. Event writes and other requests wait for less than 5 ms, and one level
// rejected requests long ago.
const quietLevels = `
	apiserver_flowcontrol_nominal_limit_seats{instance="api-1",priority_level="events"} 12x60
	apiserver_flowcontrol_nominal_limit_seats{instance="api-1",priority_level="events-system"} 12x60
	apiserver_flowcontrol_nominal_limit_seats{instance="api-1",priority_level="workload-low"} 236x60
	apiserver_flowcontrol_nominal_limit_seats{instance="api-2",priority_level="events"} 12x60
	apiserver_flowcontrol_nominal_limit_seats{instance="api-2",priority_level="events-system"} 12x60
	apiserver_flowcontrol_nominal_limit_seats{instance="api-2",priority_level="workload-low"} 236x60
	apiserver_flowcontrol_current_limit_seats{instance="api-1",priority_level="workload-low"} 270x60
	apiserver_flowcontrol_current_executing_seats{instance="api-1",priority_level="events",flow_schema="events"} 2x60
	apiserver_flowcontrol_current_executing_seats{instance="api-1",priority_level="workload-low",flow_schema="service-accounts"} 40x60
	apiserver_flowcontrol_current_inqueue_requests{instance="api-1",priority_level="events",flow_schema="events"} 0x60
	apiserver_flowcontrol_dispatched_requests_total{instance="api-1",priority_level="events",flow_schema="events"} 0+6000x60
	apiserver_flowcontrol_rejected_requests_total{instance="api-1",priority_level="events",flow_schema="events",reason="queue-full"} 40x60
	apiserver_flowcontrol_rejected_requests_total{instance="api-1",priority_level="events-system",flow_schema="events-nodes",reason="time-out"} 3x60
	apiserver_flowcontrol_rejected_requests_total{instance="api-1",priority_level="workload-low",flow_schema="service-accounts",reason="queue-full"} 9x60
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-1",priority_level="events",flow_schema="events",execute="true",le="0.005"} 0+6000x60
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-1",priority_level="events",flow_schema="events",execute="true",le="+Inf"} 0+6000x60
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-1",priority_level="events-system",flow_schema="events-nodes",execute="true",le="0.005"} 0+600x60
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-1",priority_level="events-system",flow_schema="events-nodes",execute="true",le="+Inf"} 0+600x60
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-1",priority_level="workload-low",flow_schema="service-accounts",execute="true",le="0.005"} 0+60000x60
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-1",priority_level="workload-low",flow_schema="service-accounts",execute="true",le="+Inf"} 0+60000x60
`

// stormInBank is a storm whose alert fires.
const stormInBank = `
	eventquota_events_total{pod="a",event_namespace="bank",policy="own",outcome="drop"} 0+6000x60
`

// slowAt are waits of a level at the second API server, 120 a minute: all of them for between 5 and 10 s.
func slowAt(level string) string {
	const bucket = `
	apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-2",flow_schema="x",execute="true",priority_level="`
	return bucket + level + `",le="1"} 0x60` + bucket + level + `",le="5"} 0x60` + bucket + level + `",le="10"} 0+120x60` +
		bucket + level + `",le="+Inf"} 0+120x60` + "\n"
}

func TestPriorityLevelAlerts(t *testing.T) {
	t.Parallel()
	const (
		storm    = "info: An Event storm is under way in namespace bank."
		rejected = "info: The API server rejects Event writes of priority level events."
		nodes    = "warning: The API server rejects Event writes of FlowSchema events-nodes."
		others   = "warning: Other requests of priority level workload-low wait during an Event storm."
		// What an API server has counted, before its priority level and reason.
		counted = `apiserver_flowcontrol_rejected_requests_total{instance="api-2",`
		full    = `reason="queue-full",`
		late    = `reason="time-out",`
		events  = `priority_level="events",flow_schema="events"} `
		system  = `priority_level="events-system",flow_schema="events-nodes"} `
		another = `priority_level="workload-low",flow_schema="service-accounts"} `
	)
	runCases(t, map[string]alertCase{
		"Event writes that one API server rejects, for one reason after the other": {healthy +
			counted + full + events + "0+60x10 600x50\n" +
			counted + late + events + "0x10 0+60x50",
			15 * time.Minute, []string{rejected}},
		"no Event writes before they have been rejected for minutes": {healthy +
			counted + full + events + "0+60x60",
			9 * time.Minute, nil},
		"no rejections of another priority level": {healthy +
			counted + full + another + "0+60x60",
			30 * time.Minute, nil},
		"Event writes of kubelets that are rejected once": {healthy +
			counted + full + system + "2x10 5x50",
			12 * time.Minute, []string{nodes}},
		"the first rejection that an API server counts": {healthy +
			counted + full + system + "_x10 5x50",
			12 * time.Minute, []string{nodes}},
		"no rejection that is minutes old": {healthy +
			counted + full + system + "_x10 5x50\n" +
			counted + late + system + "2x10 5x50",
			25 * time.Minute, nil},
		"no rejection of an API server that is scraped only now": {healthy + `
			apiserver_flowcontrol_nominal_limit_seats{instance="api-3",priority_level="events-system"} _x10 12x50
			apiserver_flowcontrol_rejected_requests_total{instance="api-3",` + late + system + "_x10 5x50",
			12 * time.Minute, nil},
		"Event writes that wait at one of two API servers, however many find their queue full": {healthy + slowAt("events") + `
			apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-2",flow_schema="x",execute="false",priority_level="events",le="1"} 0+60000x60
			apiserver_flowcontrol_request_wait_duration_seconds_bucket{instance="api-2",flow_schema="x",execute="false",priority_level="events",le="+Inf"} 0+60000x60`,
			15 * time.Minute, []string{"warning: Event writes of priority level events wait 9.95s for a seat."}},
		"Event writes of nodes that wait": {healthy + slowAt("events-system"),
			15 * time.Minute, []string{"warning: Event writes of priority level events-system wait 9.95s for a seat."}},
		"no Event writes before they have waited for minutes": {healthy + slowAt("events"),
			9 * time.Minute, nil},
		"other requests that wait during a storm": {healthy + stormInBank + slowAt("workload-low"),
			15 * time.Minute, []string{storm, others}},
		"other requests that are rejected during a storm": {healthy + stormInBank +
			counted + full + another + "0+60x60",
			15 * time.Minute, []string{storm, others}},
		"no other requests where only Event writes wait and are rejected during a storm": {healthy + stormInBank + slowAt("events") +
			counted + full + events + "0+60x60",
			15 * time.Minute, []string{storm, rejected, "warning: Event writes of priority level events wait 9.95s for a seat."}},
		"no other requests that wait without a storm": {healthy + slowAt("workload-low"),
			15 * time.Minute, nil},
	})
}
