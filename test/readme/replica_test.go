package readme

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/storm"
)

// startReplica runs a replica and updates the status of the Deployment, in place of the kubelet and the controllers. The
// replica uses the Redis user of docs/operations.md. Then it floods the API server with Events.
func (e *env) startReplica() {
	e.Helper()
	if e.replica != "" {
		return
	}
	// The set creates these itself, and would not overwrite what kubectl has applied.
	e.run("kubectl -n eventquota-system delete deployment,networkpolicy eventquota")
	redis := redistest.Start(e, redistest.Options{Users: []redistest.User{{Name: "eventquota", Password: "secret", Rules: redisRights(e.T)}}})
	e.write("password", "secret")
	set, err := replica.StartSet(e.Context(), e.cluster, e.program, 1,
		"--self-managed-certificates", "--redis-addresses="+redis.Addr(), "--redis-username=eventquota",
		"--redis-password-file="+filepath.Join(e.dir, "password"), "--store-deadline=1s", "--deadline=2s")
	e.must(err)
	e.Cleanup(func() {
		if e.Failed() {
			e.Logf("log of the replica:\n%s", set.Replicas[0].Log())
		}
		set.Close()
	})
	e.replica = strings.TrimSuffix(set.Replicas[0].MetricsURL, "/metrics")
	go e.reportRollouts()
	e.flood("storm")
	e.checkRedisUser(set.Replicas[0].MetricsURL)
	e.run("kubectl create namespace monitoring")
	e.run("kubectl -n monitoring create serviceaccount prometheus-k8s")
}

// checkRedisUser checks that the Redis user has all rights that it needs. Without them, the replica would decide without
// Redis.
func (e *env) checkRedisUser(metrics string) {
	e.Helper()
	request, err := http.NewRequestWithContext(e.Context(), http.MethodGet, metrics, http.NoBody)
	e.must(err)
	response, err := http.DefaultClient.Do(request)
	e.must(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	e.must(err)
	if !regexp.MustCompile(`(?m)^eventquota_store_duration_seconds_count\{step="decide",store="redis"\} [1-9]`).Match(content) {
		e.Errorf("the replica counts no calls of Redis:\n%s", content)
	}
	failed := regexp.MustCompile(`(?m)^eventquota_store_errors_total\{reason="other",.*store="redis"\} [1-9].*`)
	if calls := failed.FindAll(content, -1); len(calls) > 0 {
		e.Errorf("with the rights that docs/operations.md gives, calls fail: %s", calls)
	}
}

// redisRights returns the rights of the Redis user in docs/operations.md.
func redisRights(t *testing.T) string {
	t.Helper()
	for _, b := range read(t, "docs/operations.md").blocks {
		if _, rules, ok := strings.Cut(b.code, "ACL SETUSER eventquota on >... "); ok {
			return strings.Join(strings.Fields(rules), " ")
		}
	}
	t.Fatal("docs/operations.md does not say which rights the user at Redis needs")
	return ""
}

// reportRollouts sets the pods of each version of the Deployment to ready, until the test ends.
func (e *env) reportRollouts() {
	deployments := e.client.AppsV1().Deployments(cluster.ServiceNamespace)
	_ = wait.PollUntilContextCancel(e.Context(), 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		d, err := deployments.Get(ctx, "eventquota", metav1.GetOptions{})
		if err == nil && d.Status.ObservedGeneration < d.Generation {
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			}
			_, _ = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}) // a failed update is retried in the next iteration
		}
		return false, nil
	})
}

// flood waits until the API server calls the replica, writes a storm about the pods of a namespace, and waits for the notice
// about dropped Events.
func (e *env) flood(namespace string) {
	e.Helper()
	_, err := e.client.CoreV1().Namespaces().Create(e.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	e.must(err)
	n := 0
	e.eventually("the API server calls the replica", func() bool {
		n++
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint("probe-", n)},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "probe"},
			Reason:         "Probe", Type: corev1.EventTypeNormal,
		}, metav1.CreateOptions{})
		return apierrors.IsAlreadyExists(err)
	})
	_, err = storm.Storm{Namespace: namespace, Pods: 1, Events: 60, Repeating: 1, Reasons: 1}.Run(e.Context(), e.cluster.Config)
	e.must(err)
	e.eventually("what was dropped is told", func() bool {
		notices, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "reason=EventsDropped"})
		return err == nil && len(notices.Items) > 0
	})
}
