package cluster

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
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
	const committed = "etcd_server_proposals_committed_total"
	families, err := parseMetrics(content, committed)
	if err != nil {
		return 0, fmt.Errorf("read etcd's metrics: %w", err)
	}
	if families[committed] == nil {
		return 0, fmt.Errorf("etcd has no metric %s", committed)
	}
	return sumMetric(families[committed], nil), nil
}

// ProcessorTime returns the CPU time that the API server has used since its start, in steps of 10 ms.
func (c *Cluster) ProcessorTime(ctx context.Context) (time.Duration, error) {
	const seconds = "process_cpu_seconds_total"
	families, err := c.apiServerMetrics(ctx, seconds)
	if err != nil {
		return 0, err
	}
	used := families[seconds].GetMetric()
	if len(used) != 1 {
		return 0, fmt.Errorf("kube-apiserver has no metric %s", seconds)
	}
	return time.Duration(used[0].GetCounter().GetValue() * float64(time.Second)), nil
}

// EventWrites returns how many Event writes of both API groups the API server has sent to etcd. It includes those
// that etcd refused, such as a create of an existing name. It excludes leases and Events that admission or validation
// refused.
func (c *Cluster) EventWrites(ctx context.Context) (int64, error) {
	const requests = "etcd_requests_total"
	families, err := c.apiServerMetrics(ctx, requests)
	if err != nil {
		return 0, err
	}
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

// apiServerMetrics returns the API server's counters and gauges of these names. It asks for no others, and for none to be compressed, as
// the client is on the same machine.
func (c *Cluster) apiServerMetrics(ctx context.Context, names ...string) (map[string]*dto.MetricFamily, error) {
	request := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept-Encoding", "identity")
	for _, name := range names {
		request.Param("name[]", name)
	}
	content, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read kube-apiserver's metrics: %w", err)
	}
	families, err := parseMetrics(content, names...)
	if err != nil {
		return nil, fmt.Errorf("read kube-apiserver's metrics: %w", err)
	}
	return families, nil
}

// metricsBy returns a T for each value of a label. add has the API server's metrics that matter, and what each of their
// values changes in the T of its label.
func metricsBy[T any](ctx context.Context, c *Cluster, label string, add map[string]func(to *T, labels map[string]string, value int64)) (map[string]T, error) {
	families, err := c.apiServerMetrics(ctx, slices.Collect(maps.Keys(add))...)
	if err != nil {
		return nil, err
	}
	all := map[string]T{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := LabelsOf(m)
			one := all[labels[label]]
			add[name](&one, labels, int64(m.GetCounter().GetValue()+m.GetGauge().GetValue()))
			all[labels[label]] = one
		}
	}
	return all, nil
}
