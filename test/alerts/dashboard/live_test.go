package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/storm"
)

// Queries that have results only if something is wrong, or only with Redis.
const (
	firingAlerts = "Alerts (annotation)"
	withoutRedis = "Decided without Redis"
	storeErrors  = "Errors of the store"
	notInSink    = "Copies that the sink does not take"
)

// failingPolicy has a condition that cannot be evaluated for Events without labels.
const failingPolicy = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: failing}
spec: {tier: Admin, precedence: 1, action: Drop, match: {conditions: [{name: label, expression: "event.metadata.labels['a'] == 'b'"}]}}
`

// TestQueriesReturnData checks that each query of the file has results. A real Prometheus scrapes real replicas in a storm:
// one without Redis, and several with it.
func TestQueriesReturnData(t *testing.T) {
	// Build outside of the network namespace, where missing modules can be downloaded.
	if !cluster.RunIsolated(t, func(ctx context.Context) error { _, err := replica.Build(ctx); return err }) {
		return
	}
	e := newEnv(t)
	t.Run("of one replica without Redis", func(t *testing.T) {
		alone, err := replica.Start(t.Context(), e.cluster, e.program)
		e.must(err)
		defer alone.Kill()
		// The definitions are installed now.
		_, _, err = e.cluster.Kubectl(t.Context(), "", "apply", "-f", "../../../manifests/examples/audit-first.yaml")
		e.must(err)
		_, _, err = e.cluster.Kubectl(t.Context(), failingPolicy, "apply", "-f", "-")
		e.must(err)
		e.fillLevels()
		e.must(alone.Install(t.Context()))
		prometheus := startPrometheus(t, e.cluster.Config, map[string]*replica.Replica{"eventquota-0": alone})
		over := e.storm("one")
		prometheus.waitAnswers(firingAlerts, withoutRedis, storeErrors, notInSink)
		prometheus.waitPanelValue("Replicas", 1)
		prometheus.waitPanelValue("Without Redis", 0)
		prometheus.waitPanelValue("Failing open", 0)
		e.must(over())
		e.must(e.cluster.RemoveWebhooks(t.Context()))
	})
	t.Run("of several with Redis, and when that goes away", func(t *testing.T) {
		redis := redistest.Start(t, redistest.Options{})
		// Nothing listens at the address of the sink, so its queue soon fills up.
		set, err := replica.StartSet(t.Context(), e.cluster, e.program, 2, "--calls-per-connection=5", "--redis-addresses="+redis.Addr(),
			"--sink-otlp-endpoint=http://127.0.0.1:9", "--sink-memory=1Mi")
		e.must(err)
		defer set.Close()
		e.must(set.Install(t.Context()))
		prometheus := startPrometheus(t, e.cluster.Config, map[string]*replica.Replica{"eventquota-0": set.Replicas[0], "eventquota-1": set.Replicas[1]})
		over := e.storm("several")
		// On a busy machine a call to Redis can time out, so these may have results too.
		prometheus.waitAnswers(firingAlerts, withoutRedis, storeErrors)
		prometheus.waitPanelValue("Replicas", 2)

		e.must(redis.Stop())
		prometheus.waitPanelValue("Without Redis", 2)
		prometheus.waitAnswers(firingAlerts)
		prometheus.checkFiringAlert()
		e.must(redis.Restart(t.Context()))
		prometheus.waitAnswers(firingAlerts)
		prometheus.waitPanelValue("Without Redis", 0)

		// The API server continues to call the replicas after they have stopped.
		set.Close()
		prometheus.waitPanelValue("Replicas", 0)
		prometheus.eventually("the API server fails open", func(ctx context.Context) bool {
			return slices.Max(append(prometheus.panelValues(ctx, "Failing open"), 0)) > 0
		})
		e.must(over())
		prometheus.waitAPIServerMetrics()
	})
}

// waitAnswers waits until all queries except the named ones have results, also with one value selected for each variable.
func (s *promServer) waitAnswers(but ...string) {
	s.Helper()
	all := queries(s.T)
	for _, name := range but {
		if !slices.ContainsFunc(all, func(q dashboardQuery) bool { return q.where == name }) {
			s.Fatalf("there is no query %q", name)
		}
	}
	one := selection{"pod": "(eventquota-0|eventquota-1)", "namespace": "(one|several)", "policy": "(default|ClusterEventPolicy failing)"}
	var missing []string
	s.eventually("all queries have answers", func(ctx context.Context) bool {
		missing = missing[:0]
		for _, q := range all {
			if slices.Contains(but, q.where) {
				continue
			}
			for _, chosen := range []selection{defaultSelection(), one} {
				if len(s.values(ctx, q.fill(chosen), time.Now())) == 0 {
					missing = append(missing, fmt.Sprintf("%s: %s", q.where, q.fill(chosen)))
				}
			}
			if q.label != "" && !s.hasLabel(ctx, q.fill(defaultSelection()), q.label) {
				missing = append(missing, fmt.Sprintf("%s: %s has no label %s", q.where, q.expr, q.label))
			}
		}
		return len(missing) == 0
	}, &missing)
}

// panelValues returns the values that a panel shows now.
func (s *promServer) panelValues(ctx context.Context, panel string) (values []float64) {
	s.Helper()
	for _, q := range queries(s.T) {
		if q.where == panel {
			values = append(values, s.values(ctx, q.fill(defaultSelection()), time.Now())...)
		}
	}
	return values
}

// waitPanelValue waits until a panel shows the wanted number.
func (s *promServer) waitPanelValue(panel string, want float64) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s shows %v", panel, want), func(ctx context.Context) bool {
		return slices.Equal(s.panelValues(ctx, panel), []float64{want})
	})
}

// checkFiringAlert checks that the dashboard marks and counts a firing alert.
func (s *promServer) checkFiringAlert() {
	s.Helper()
	at := s.alert(s.Context())
	for _, q := range queries(s.T) {
		if q.where != firingAlerts && q.where != "Alerts" {
			continue
		}
		if got := s.values(s.Context(), q.fill(defaultSelection()), at); len(got) == 0 || got[0] == 0 {
			s.Errorf("%s: %v, want an alert", q.where, got)
		}
	}
}

// eventually waits until check returns true. After a timeout it reports the missing results.
func (s *promServer) eventually(what string, check func(context.Context) bool, missing ...*[]string) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), time.Second, 3*time.Minute, true,
		func(ctx context.Context) (bool, error) { return check(ctx), nil })
	if err == nil {
		return
	}
	for _, list := range missing {
		for _, m := range *list {
			s.Errorf("no answer: %s", m)
		}
	}
	s.Fatalf("%s: not within three minutes", what)
}

// env has a cluster and the path of the webhook's program.
type env struct {
	*testing.T
	cluster *cluster.Cluster
	program string
	config  *rest.Config // of a user that writes Events
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{T: t, cluster: cluster.ForTest(t, cluster.Options{Services: true, NoAudit: true})}
	var err error
	e.program, err = replica.Build(t.Context())
	e.must(err)
	_, _, err = e.cluster.Kubectl(t.Context(), fullLevelManifest, "apply", "-f", "-")
	e.must(err)
	e.config, _, err = e.cluster.User("writer") // priority and fairness exempts system:masters
	e.must(err)
	e.config.WarningHandler = rest.NoWarnings{} // the policy in mode Audit causes warnings
	return e
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// storm writes 100 Events per second in a new namespace until over is called.
func (e *env) storm(namespace string) (over func() error) {
	e.Helper()
	client, err := kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	_, err = client.CoreV1().Namespaces().Create(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	e.must(err)
	return storm.RunPaced(e.Context(), e.config, 100, 2, func(int, int) (storm.Storm, error) {
		return storm.Storm{Namespace: namespace, Pods: 3, Events: 150, Repeating: 1, Similar: 1, Series: 1, Reasons: 1}, nil
	})
}
