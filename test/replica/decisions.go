package replica

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/eventquota/eventquota/test/cluster"
)

// Decisions returns how many reviews the replica has answered since its start, by a label of the metric: phase (mutate and
// validate) or outcome.
func (r *Replica) Decisions(ctx context.Context, by string) (map[string]int64, error) {
	decisions, err := r.Metric(ctx, "eventquota_decisions_total")
	answered := map[string]int64{}
	for _, m := range decisions {
		answered[cluster.LabelsOf(m)[by]] += int64(m.GetCounter().GetValue())
	}
	return answered, err
}

// Sum returns the sum of a counter or gauge of the replica over its labels.
func (r *Replica) Sum(ctx context.Context, name string) (n int64, err error) {
	values, err := r.Metric(ctx, name)
	for _, m := range values {
		n += int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	return n, err
}

// IsLeader reports whether the replica has been elected to write pending counts for all.
func (r *Replica) IsLeader(ctx context.Context) (bool, error) {
	status, err := r.Metric(ctx, "leader_election_master_status")
	for _, m := range status {
		if m.GetGauge().GetValue() == 1 {
			return true, nil
		}
	}
	return false, err
}

// Metric returns the values of a metric of the replica, one for each set of labels. Before its first value, a metric with labels has none.
func (r *Replica) Metric(ctx context.Context, name string) ([]*dto.Metric, error) {
	// The replica sends only that metric.
	only := r.MetricsURL + "?" + url.Values{"name[]": {name}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, only, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read the webhook's metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the webhook's metrics: %w", err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the webhook's metrics: %w", err)
	}
	return families[name].GetMetric(), nil
}
