package main

import (
	"context"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/replica"
)

// promServer is a Prometheus with storage and a query engine. It scrapes an API server and replicas every second.
type promServer struct {
	*testing.T
	db     *tsdb.DB
	engine *promql.Engine
}

// startPrometheus starts a Prometheus that runs until the test ends.
func startPrometheus(t *testing.T, api *rest.Config, replicas map[string]*replica.Replica) *promServer {
	t.Helper()
	s := &promServer{T: t}
	var err error
	s.db, err = tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	s.must(err)
	s.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	manager, err := scrape.NewManager(&scrape.Options{DiscoveryReloadInterval: model.Duration(10 * time.Millisecond)}, nil, nil, s.db, nil, prometheus.NewRegistry())
	s.must(err)
	loaded, err := config.Load(configuration(t, api), slog.New(slog.DiscardHandler))
	s.must(err)
	s.must(manager.ApplyConfig(loaded))
	found := make(chan map[string][]*targetgroup.Group, 1)
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(found) }()
	found <- targetGroups(t, api, replicas)
	t.Cleanup(func() {
		manager.Stop()
		s.must(<-ended)
		s.must(s.engine.Close())
		s.must(s.db.Close())
	})
	return s
}

func (s *promServer) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// configuration returns a configuration that scrapes the API server as the user of api.
func configuration(t *testing.T, api *rest.Config) string {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	content, err := yaml.Marshal(map[string]any{
		"global": map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s"},
		"scrape_configs": []any{
			map[string]any{"job_name": "eventquota"},
			map[string]any{"job_name": "apiserver", "scheme": "https", "tls_config": map[string]any{
				"ca_file": file("ca", api.CAData), "cert_file": file("cert", api.CertData), "key_file": file("key", api.KeyData),
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// targetGroups returns the targets by pod name, with the labels that a ServiceMonitor adds.
func targetGroups(t *testing.T, api *rest.Config, replicas map[string]*replica.Replica) map[string][]*targetgroup.Group {
	t.Helper()
	host := func(address string) model.LabelValue {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return model.LabelValue(parsed.Host)
	}
	group := &targetgroup.Group{Source: "replicas", Labels: model.LabelSet{
		"job": "eventquota", "service": "eventquota", "namespace": "eventquota-system", "container": "webhook", "endpoint": "metrics",
	}}
	for pod, r := range replicas {
		group.Targets = append(group.Targets, model.LabelSet{model.AddressLabel: host(r.MetricsURL), "pod": model.LabelValue(pod)})
	}
	return map[string][]*targetgroup.Group{
		"eventquota": {group},
		"apiserver":  {{Source: "apiserver", Targets: []model.LabelSet{{model.AddressLabel: host(api.Host)}}}},
	}
}

// values returns the results of a query at a time, without NaN.
func (s *promServer) values(ctx context.Context, expr string, at time.Time) (values []float64) {
	s.Helper()
	query, err := s.engine.NewInstantQuery(ctx, s.db, nil, expr, at)
	s.must(err)
	defer query.Close()
	result := query.Exec(ctx)
	vector, err := result.Vector()
	if err != nil && ctx.Err() == nil {
		s.Fatalf("%s: %v", expr, err)
	}
	for _, sample := range vector {
		if !math.IsNaN(sample.F) && !math.IsInf(sample.F, 0) {
			values = append(values, sample.F)
		}
	}
	return values
}

// hasLabel reports whether a query returns a series with a label.
func (s *promServer) hasLabel(ctx context.Context, expr, label string) bool {
	return len(s.values(ctx, "count by ("+label+") ("+expr+") and on ("+label+") ("+expr+")", time.Now())) > 0
}

// alert evaluates the rules of manifests/alerts now and, because nothing changes meanwhile, for one minute later. It returns
// the latter time.
func (s *promServer) alert(ctx context.Context) time.Time {
	s.Helper()
	var manifest struct{ Spec map[string]any }
	content, err := os.ReadFile(rulesFile)
	s.must(err)
	s.must(yaml.Unmarshal(content, &manifest))
	content, err = yaml.Marshal(manifest.Spec)
	s.must(err)
	path := filepath.Join(s.TempDir(), "rules.yaml")
	s.must(os.WriteFile(path, content, 0o600))
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, QueryFunc: rules.EngineQueryFunc(s.engine, s.db), Context: ctx,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Appendable: s.db, Queryable: s.db, Logger: slog.New(slog.NewTextHandler(s.Output(), nil)), Registerer: prometheus.NewRegistry(),
		Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, path)
	for _, err := range errs {
		s.Error(err)
	}
	begun := time.Now()
	for _, g := range groups {
		for _, r := range g.Rules() {
			r.(*rules.AlertingRule).SetRestored(true) // there is no earlier state
		}
		g.Eval(ctx, begun)
		g.Eval(ctx, begun.Add(time.Minute))
	}
	return begun.Add(time.Minute)
}
