package metrics

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

const docs = "../../docs/metrics.md"

// TestMetricsAreDocumented holds docs/metrics.md to what the webhook registers.
// go test ./admission/metrics -run Documented -update writes it anew.
func TestMetricsAreDocumented(t *testing.T) {
	var want bytes.Buffer
	fmt.Fprintf(&want, docsHead, labelledNamespaces, labelledPolicies)
	all := slices.SortedFunc(slices.Values(whole().all), func(a, b instrument) int { return strings.Compare(a.name, b.name) })
	for _, i := range all {
		labels := "none"
		if len(i.labels) > 0 {
			labels = "`" + strings.Join(i.labels, "`, `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s | %s |\n", i.name, i.kind, unit(i), labels, i.help)
	}
	cli.Golden(t, docs, want.String())
}

// unit is the unit of a metric, by the end of its name.
func unit(i instrument) string {
	for _, end := range []struct{ suffix, unit string }{
		{"_timestamp_seconds", "s since 1970"}, {"_seconds", "s"}, {"_bytes", "bytes"},
	} {
		if strings.HasSuffix(i.name, end.suffix) {
			return end.unit
		}
	}
	return "1"
}

// TestMetricsAreAsPrometheusHasThem holds names, units and help of what is served
// to promtool's linter, and that what is served is what is documented.
func TestMetricsAreAsPrometheusHasThem(t *testing.T) {
	m := whole()
	m.touchAll()
	families, err := m.Gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "eventquota_") })
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var served, documented []string
	for _, f := range families {
		served = append(served, describe(f))
	}
	for _, i := range m.all {
		slices.Sort(i.labels)
		documented = append(documented, fmt.Sprint(i.name, " ", i.kind, " ", i.labels, " ", i.help))
	}
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served:\n%s\ndocumented:\n%s", strings.Join(served, "\n"), strings.Join(documented, "\n"))
	}
}

// describe says of a family what its instrument says.
func describe(f *dto.MetricFamily) string {
	labels := []string{}
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	return fmt.Sprint(f.GetName(), " ", strings.ToLower(f.GetType().String()), " ", labels, " ", f.GetHelp())
}

// touchAll gives each metric that has labels a value.
func (m *Metrics) touchAll() {
	m.decided.WithLabelValues("a", "b")
	m.took.WithLabelValues("a")
	m.Spans.WithLabelValues("a")
	m.audited.WithLabelValues("a")
	m.events.events.WithLabelValues("a", "b", "c", "d")
	m.events.warnings.WithLabelValues("a")
	m.Store.took.WithLabelValues("a", "b")
	m.Store.errors.WithLabelValues("a", "b", "c")
	m.Store.breaker.WithLabelValues("a")
	m.Store.WithoutStore.WithLabelValues("a")
	m.Settle.writes.WithLabelValues("a")
	m.Settle.lag.WithLabelValues("a")
	m.Settle.pending.WithLabelValues("a")
}

// whole are all metrics there are.
func whole() *Metrics {
	m := New("devel")
	m.Policies(reported{})
	m.Certificate(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") })
	return m
}

// TestBuildInfoNamesTheProgram holds the labels of the version.
func TestBuildInfoNamesTheProgram(t *testing.T) {
	page := prom.Exposed(t, New("devel").Gatherer, "eventquota_build_info")
	if want := `eventquota_build_info\{goversion="go1\..+",revision=".+",version="devel"\} 1`; !regexp.MustCompile(want).MatchString(page) {
		t.Errorf("%q does not match %q", page, want)
	}
}

const docsHead = `# Metrics

Each replica serves these at ` + "`--metrics-address`" + ` under ` + "`/metrics`" + `, in the text format of Prometheus, beside
those of controller-runtime's webhook server, client-go's leader election, Go and the process.
This page is generated: a test writes it and holds it.

What each replica counts is its own. Sum over replicas; of gauges by what the text says.

The labels ` + "`event_namespace` and `policy`" + ` are bounded. The first %d namespaces in which a replica decides
Events since its start have their own value, all others share the value ` + "`other`" + `; in each of these,
so have the first %d policies. A namespace or policy that is deleted keeps its value until the
replica ends, so that counters never go back. A namespace named other is counted with the rest.

| metric | type | unit | labels | what it is |
|---|---|---|---|---|
`
