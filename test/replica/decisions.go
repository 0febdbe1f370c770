package replica

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Decisions returns how many reviews the replica has answered since its start, by a label of the metric: phase (mutate and
// validate) or outcome.
func (r *Replica) Decisions(ctx context.Context, by string) (map[string]int64, error) {
	family, err := r.metric(ctx, "eventquota_decisions_total")
	answered := map[string]int64{}
	for _, m := range family.GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == by {
				answered[label.GetValue()] += int64(m.GetCounter().GetValue())
			}
		}
	}
	return answered, err
}

// CounterSum returns the sum of a counter of the replica over its labels, since its start.
func (r *Replica) CounterSum(ctx context.Context, counter string) (n int64, err error) {
	family, err := r.metric(ctx, counter)
	for _, m := range family.GetMetric() {
		n += int64(m.GetCounter().GetValue())
	}
	return n, err
}

// IsLeader reports whether the replica has been elected to write pending counts for all.
func (r *Replica) IsLeader(ctx context.Context) (bool, error) {
	family, err := r.metric(ctx, "leader_election_master_status")
	for _, m := range family.GetMetric() {
		if m.GetGauge().GetValue() == 1 {
			return true, nil
		}
	}
	return false, err
}

// metric returns a metric of the replica, or nil if it has none of that name yet.
func (r *Replica) metric(ctx context.Context, name string) (*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.MetricsURL, http.NoBody)
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
	return families[name], nil
}
