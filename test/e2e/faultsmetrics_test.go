package e2e

import (
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/eventquota/eventquota/test/replica"
)

// metrics are all metrics of a replica, by name.
func (e *setEnv) metrics(r *replica.Replica) map[string]*dto.MetricFamily {
	e.Helper()
	request, err := http.NewRequestWithContext(e.Context(), http.MethodGet, r.MetricsURL, http.NoBody)
	e.must(err)
	response, err := http.DefaultClient.Do(request)
	e.must(err)
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	e.must(err)
	return families
}

// metric is the sum of all values of a counter or gauge of a replica.
func (e *setEnv) metric(r *replica.Replica, name string) (sum int64) {
	e.Helper()
	for _, m := range e.metrics(r)[name].GetMetric() {
		sum += int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	return sum
}

// each is a metric of every replica.
func (e *setEnv) each(name string) (values []int64) {
	e.Helper()
	for _, r := range e.set.Replicas {
		values = append(values, e.metric(r, name))
	}
	return values
}

const (
	// storeUnavailable is 1 while a replica does not ask Redis.
	storeUnavailable = "eventquota_store_unavailable"
	// storeErrors is how many calls of the store have failed.
	storeErrors = "eventquota_store_errors_total"
	// withoutStore is what a replica has decided without Redis.
	withoutStore = "eventquota_decisions_without_store_total"
	// reports is how many decisions a replica has reported to Redis afterwards, and reportsWaiting for
	// how many registers some wait.
	reports        = "eventquota_reports_total"
	reportsWaiting = "eventquota_reports_waiting"
)
