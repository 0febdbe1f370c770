package metrics

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/leaks"
	"github.com/eventquota/eventquota/test/prom"
)

// TestMain checks that the tests leave no goroutine running.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

const docs = "../../docs/metrics.md"

// TestMetricsAreDocumented compares docs/metrics.md with the registered metrics.
// go test ./admission/metrics -run Documented -update regenerates it.
func TestMetricsAreDocumented(t *testing.T) {
	var want bytes.Buffer
	fmt.Fprintf(&want, docsHead, maxNamespaceLabels, maxRuleLabels)
	for _, f := range families(t) {
		labels := "none"
		if l := labelsOf(f); len(l) > 0 {
			labels = "`" + strings.Join(l, "`, `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), unit(f.GetName()), labels, f.GetHelp())
	}
	cli.CompareGolden(t, docs, want.String())
}

// unit returns the unit of a metric from the suffix of its name.
func unit(name string) string {
	for _, end := range []struct{ suffix, unit string }{
		{"_timestamp_seconds", "s since 1970"}, {"_seconds", "s"}, {"_bytes", "bytes"},
	} {
		if strings.HasSuffix(name, end.suffix) {
			return end.unit
		}
	}
	return "1"
}

// TestMetricsPassPromlint checks names, units and help of all metrics with promtool's linter.
func TestMetricsPassPromlint(t *testing.T) {
	problems, err := promlint.NewWithMetricFamilies(families(t)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestProcessMetrics checks the process metrics that alerts on memory and file descriptors need.
func TestProcessMetrics(t *testing.T) {
	for _, name := range []string{"process_resident_memory_bytes", "process_open_fds", "go_goroutines"} {
		if n := prom.Sum(t, allMetrics().Gatherer, name); !(n > 0) {
			t.Errorf("%s is %f, want more than 0", name, n)
		}
	}
}

// families returns all metrics of eventquota. It fails the test if setAllLabels does not set one of them.
func families(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	m := allMetrics()
	m.setAllLabels()
	all, err := m.Gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "eventquota_") })
	registered := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(registered)
	close(registered)
	for desc := range registered {
		if !slices.ContainsFunc(all, func(f *dto.MetricFamily) bool { return strings.Contains(desc.String(), `"`+f.GetName()+`"`) }) {
			t.Errorf("setAllLabels does not set %s", desc)
		}
	}
	return all
}

func labelsOf(f *dto.MetricFamily) (names []string) {
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	return names
}

func TestPolicyMetrics(t *testing.T) {
	t.Parallel()
	m := New("devel")
	rejected := watch.Report{Err: errors.New("no")}
	m.RegisterPolicies(func() []watch.Report { return []watch.Report{{}, rejected, rejected, {}, {}, {Pending: true}} })
	prom.Want(t, m.Gatherer, "eventquota_policies", `{result="accepted"} 3`, `{result="pending"} 1`, `{result="rejected"} 2`)
}

// setAllLabels creates a series of each metric that has labels.
func (m *Metrics) setAllLabels() {
	m.decisions.WithLabelValues("a", "b")
	m.duration.WithLabelValues("a")
	m.audited.WithLabelValues("a")
	m.events.events.WithLabelValues("a", "b", "c")
	m.events.warnings.WithLabelValues("a")
	m.events.unreadable.WithLabelValues("a")
	m.events.errors.WithLabelValues("a", "b")
	m.Store.duration.WithLabelValues("a", "b")
	m.Store.errors.WithLabelValues("a", "b", "c")
	m.Store.WithoutStore.WithLabelValues("a")
	m.Settler.writes.WithLabelValues("a")
	m.Settler.lag.WithLabelValues("a")
	m.Settler.pending.WithLabelValues("a")
	m.Sink.records.WithLabelValues("a", "b")
	m.Sink.undelivered.WithLabelValues("a", "b", "c")
}

// allMetrics returns Metrics with everything registered.
func allMetrics() *Metrics {
	m := New("devel")
	m.RegisterPolicies(func() []watch.Report { return nil })
	m.RegisterCertificate(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") })
	m.RegisterRepairs(func() int64 { return 0 })
	m.Sink.RegisterOutputs(func() int64 { return 0 }, "otlp")
	return m
}

const docsHead = `# Metrics

Each replica serves these metrics at ` + "`--metrics-address`" + ` under ` + "`/metrics`" + `, in the Prometheus text format, with
those of client-go's leader election, Go and the process. [Operations](operations.md#metrics-and-profiles) says how to read them, and
[which of them to look at first](operations.md#is-it-working). A test generates this page.

Each replica counts only what it does itself. Sum counters over all replicas; for gauges, read the description.

The labels ` + "`event_namespace` and `policy`" + ` are bounded. In each replica, %d namespaces with Events have a value of
their own, and all others share the value ` + "`other`" + `. In each of these, %d policies and quotas have a value of their own. The first
ones keep their values while they are counted. After an hour without a count, one loses its series to the next. If it comes back, its
counters start at 0, as after a restart. A namespace named other is counted with the rest.

| metric | type | unit | labels | description |
|---|---|---|---|---|
`
