package alerts

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy is a replica with which all is well for an hour, and which is at work.
const healthy = `
	eventquota_build_info{pod="a",version="v1"} 1x60
	eventquota_store_unavailable{pod="a"} 0x60
	eventquota_certificate_expiry_timestamp_seconds{pod="a"} 2592000x60
	eventquota_events_total{pod="a",event_namespace="shop",policy="default",outcome="admit"} 0+60000x60
	eventquota_events_total{pod="a",event_namespace="shop",policy="default",outcome="merge"} 0+600x60
	eventquota_decisions_total{pod="a",phase="mutate",outcome="admit"} 0+60000x60
	eventquota_decisions_total{pod="a",phase="mutate",outcome="undecided"} 0x60
	eventquota_warnings_dropped_total{pod="a",event_namespace="shop"} 4x60
	eventquota_redis_servers_evicting{pod="a"} 0x60
	eventquota_settler_lost_occurrences_total{pod="a"} 3x60
	eventquota_backlog_lost_occurrences_total{pod="a"} 3x60
	eventquota_sink_records_total{pod="a",output="otlp",result="delivered"} 0+600x60
	eventquota_sink_records_total{pod="a",output="otlp",result="full"} 7x60
	eventquota_settler_writes_total{pod="a",result="written"} 0+60x60
	eventquota_settler_writes_total{pod="a",result="retried"} 0+6x60
	eventquota_settler_write_lag_seconds_bucket{pod="a",store="redis",le="1"} 0+60x60
	eventquota_settler_write_lag_seconds_bucket{pod="a",store="redis",le="30"} 0+60x60
	eventquota_settler_write_lag_seconds_bucket{pod="a",store="redis",le="60"} 0+60x60
	eventquota_settler_write_lag_seconds_bucket{pod="a",store="redis",le="+Inf"} 0+60x60
	apiserver_admission_webhook_fail_open_count{name="mutate.events.eventquota.io",type="admit"} 3x60
	apiserver_admission_webhook_fail_open_count{name="another.example.com",type="admit"} 0+60x60
` + quietLevels

// alertCase is what is scraped, and the alerts that fire at a time after its beginning.
type alertCase struct {
	series string
	after  time.Duration
	want   []string
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	const (
		storm    = "info: An Event storm is under way in namespace bank."
		dropped  = "warning: Warning Events are dropped in namespace bank."
		behind   = "warning: Counts of merged Events are written late."
		lost     = "warning: Occurrences of Events are lost."
		failOpen = "critical: Events pass without a decision by eventquota."
	)
	runCases(t, map[string]alertCase{
		"nothing while all is well": {healthy, time.Hour, nil},
		"a storm, of all replicas, policies and quotas together": {healthy + `
			eventquota_events_total{pod="a",event_namespace="bank",policy="own",outcome="drop"} 0+1200x60
			eventquota_events_total{pod="b",event_namespace="bank",policy="default",outcome="merge"} 0+1200x60
			eventquota_events_total{pod="b",event_namespace="bank",policy="default",outcome="deny"} 0+1200x60`,
			15 * time.Minute, []string{storm}},
		"no storm before it has lasted for minutes": {healthy + `
			eventquota_events_total{pod="a",event_namespace="bank",policy="own",outcome="drop"} 0+30000x2 60000x57`,
			5 * time.Minute, nil},
		"Warning Events that are dropped": {healthy + `
			eventquota_warnings_dropped_total{pod="a",event_namespace="bank"} 0x10 1x50`,
			12 * time.Minute, []string{dropped}},
		"none that were dropped long ago": {healthy + `
			eventquota_warnings_dropped_total{pod="a",event_namespace="bank"} 0x10 3x50`,
			25 * time.Minute, nil},
		"copies that a sink does not take": {healthy + `
			eventquota_sink_records_total{pod="b",output="otlp",result="full"} 0x10 9x50`,
			20 * time.Minute, []string{"warning: Copies of Events do not reach the sink."}},
		"a policy that is not valid for minutes": {healthy + `
			eventquota_policies{pod="a",result="rejected"} 0x10 2x50
			eventquota_policies{pod="b",result="rejected"} 0x10 2x50`,
			25 * time.Minute, []string{"warning: 2 policies or quotas for Events are not valid."}},
		"no policy that is corrected soon": {healthy + `
			eventquota_policies{pod="a",result="rejected"} 0x10 1x5 0x45`,
			18 * time.Minute, nil},
		"conditions that keep failing": {healthy + `
			eventquota_condition_errors_total{pod="a",event_namespace="bank",policy="ClusterEventPolicy own"} 0+6x60`,
			25 * time.Minute, []string{"warning: Conditions or globs of ClusterEventPolicy own cannot be evaluated for Events in namespace bank."}},
		"a store that is unavailable for minutes": {healthy + `
			eventquota_store_unavailable{pod="b"} 0x10 1x50
			eventquota_store_unavailable{pod="c"} 0x10 1x50`,
			13 * time.Minute, []string{"warning: 2 replicas of eventquota decide without Redis."}},
		"no store that was unavailable for a moment": {healthy + `
			eventquota_store_unavailable{pod="b"} 0x10 1 0x49`,
			11 * time.Minute, nil},
		"a settler that comes late": {healthy + `
			eventquota_settler_write_lag_seconds_bucket{pod="b",store="redis",le="1"} 0x60
			eventquota_settler_write_lag_seconds_bucket{pod="b",store="redis",le="30"} 0x60
			eventquota_settler_write_lag_seconds_bucket{pod="b",store="redis",le="60"} 0+60x60
			eventquota_settler_write_lag_seconds_bucket{pod="b",store="redis",le="+Inf"} 0+60x60`,
			15 * time.Minute, []string{behind}},
		"a settler of which nothing is taken": {`
			eventquota_build_info 1x60
			eventquota_settler_writes_total{result="written"} 0+60x10 600x50
			eventquota_settler_writes_total{result="retried"} 0x10 0+60x50`,
			25 * time.Minute, []string{behind}},
		"a Redis that may evict what is pending": {healthy + `
			eventquota_redis_servers_evicting{pod="b"} 0x10 2x50`,
			20 * time.Minute, []string{"warning: Redis may evict pending writes of eventquota."}},
		"counts that are given up": {healthy + `
			eventquota_settler_lost_occurrences_total{pod="b"} 0x10 7x50`,
			12 * time.Minute, []string{lost}},
		"reports that there was no memory for": {healthy + `
			eventquota_backlog_lost_occurrences_total{pod="b"} 0x10 7x50`,
			12 * time.Minute, []string{lost}},
		"a certificate of the last week, of any replica": {healthy + `
			eventquota_certificate_expiry_timestamp_seconds{pod="b"} 600000x60`,
			20 * time.Minute, []string{"warning: The serving certificate of eventquota expires in 6d 22h 20m 0s."}},
		"no certificate of which the next is there": {healthy + `
			eventquota_certificate_expiry_timestamp_seconds{pod="b"} 600000x5 2592000x55`,
			20 * time.Minute, nil},
		"no certificate that is not there yet": {healthy + `
			eventquota_certificate_expiry_timestamp_seconds{pod="b"} ` + strings.Repeat("NaN ", 60),
			20 * time.Minute, nil},
		"calls that the API server gives up": {healthy + `
			apiserver_admission_webhook_fail_open_count{name="validate.events.eventquota.io",type="validating"} 0x5 0+1x55`,
			20 * time.Minute, []string{failOpen}},
		"Events that nobody decides in time": {healthy + `
			eventquota_decisions_total{pod="b",phase="validate",outcome="undecided"} 0+6x60`,
			20 * time.Minute, []string{failOpen}},
		"no replica that can be seen": {`
			eventquota_build_info{pod="a"} 1x5 _x55`,
			20 * time.Minute, []string{failOpen}},
	})
}

// runCases runs each case, by what it says.
func runCases(t *testing.T, cases map[string]alertCase) {
	t.Helper()
	for says, tt := range cases {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			if got := firing(t, tt.series, tt.after); !slices.Equal(got, tt.want) {
				t.Errorf("firing: %q, want %q", got, tt.want)
			}
		})
	}
}
