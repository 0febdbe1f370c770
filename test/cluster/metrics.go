package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Proposals returns the number of raft proposals that etcd has committed. These are writes of any kind, including
// refused transactions and leases.
func (c *Cluster) Proposals(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.plane.Etcd.URL.JoinPath("metrics").String(), nil)
	if err != nil {
		return 0, fmt.Errorf("read etcd's metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read etcd's metrics: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("read etcd's metrics: %w", err)
	}
	families, err := parseMetrics(content)
	if err != nil {
		return 0, fmt.Errorf("read etcd's metrics: %w", err)
	}
	const committed = "etcd_server_proposals_committed_total"
	if families[committed] == nil {
		return 0, fmt.Errorf("etcd has no metric %s", committed)
	}
	return sumMetric(families[committed], nil), nil
}

// ProcessorTime returns the CPU time that the API server has used since its start, in steps of 10 ms.
func (c *Cluster) ProcessorTime(ctx context.Context) (time.Duration, error) {
	families, err := c.apiServerMetrics(ctx)
	if err != nil {
		return 0, err
	}
	used := families["process_cpu_seconds_total"].GetMetric()
	if len(used) != 1 {
		return 0, errors.New("kube-apiserver has no metric process_cpu_seconds_total")
	}
	return time.Duration(used[0].GetCounter().GetValue() * float64(time.Second)), nil
}

// EventWrites returns how many Event writes of both API groups the API server has sent to etcd. It includes those
// that etcd refused, such as a create of an existing name. It excludes leases and Events that admission or validation
// refused.
func (c *Cluster) EventWrites(ctx context.Context) (int64, error) {
	families, err := c.apiServerMetrics(ctx)
	if err != nil {
		return 0, err
	}
	const requests = "etcd_requests_total"
	if families[requests] == nil {
		return 0, fmt.Errorf("kube-apiserver has no metric %s", requests)
	}
	return sumMetric(families[requests], func(labels map[string]string) bool {
		switch labels["operation"] {
		case "create", "update", "delete":
			return labels["group"] == "" && labels["resource"] == "events"
		}
		return false
	}), nil
}

func (c *Cluster) apiServerMetrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	content, err := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read kube-apiserver's metrics: %w", err)
	}
	families, err := parseMetrics(content)
	if err != nil {
		return nil, fmt.Errorf("read kube-apiserver's metrics: %w", err)
	}
	return families, nil
}
