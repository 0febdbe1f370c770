package storm_test

import (
	"context"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/storm"
)

// TestAWideStormHasTheProportionsOfARealOne holds them to a few points, as the scheduler
// spreads the pods as it likes.
func TestAWideStormHasTheProportionsOfARealOne(t *testing.T) {
	const pods, kubelets = 60, 3
	c := cluster.ForTest(t, cluster.Options{Scheduler: true})
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := storm.Wide{Namespace: "wide", Pods: pods}
	for i := range kubelets {
		config, _, err := c.User("system:node:"+storm.NodeName(i), "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		w.Kubelets = append(w.Kubelets, config)
	}
	if err := w.Run(t.Context(), c.Config); err != nil {
		t.Fatal(err)
	}

	count, reporters, about := map[string]int{}, map[string]bool{}, map[string]bool{}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		events, err := client.CoreV1().Events("wide").List(ctx, metav1.ListOptions{})
		clear(count)
		for i := range events.Items {
			e := &events.Items[i]
			count[e.Reason] += int(max(e.Count, 1))
			reporters[e.Source.Component+e.Source.Host] = true
			about[e.InvolvedObject.Name] = true
		}
		return count["Scheduled"] == pods, err
	})
	if err != nil {
		t.Fatalf("Events by reason: %v: %v", count, err)
	}
	sum := 0
	for _, n := range count {
		sum += n
	}
	for reason, want := range map[string]float64{"Killing": 34, "Started": 19, "Created": 19, "Pulled": 19, "Scheduled": 9} {
		if got := 100 * float64(count[reason]) / float64(sum); math.Abs(got-want) > 1 {
			t.Errorf("%s is %.1f %% of %d, want %.0f %%", reason, got, sum, want)
		}
	}
	if len(about) != pods || !reporters["kubeletnode-1"] || len(reporters) != kubelets+1 {
		t.Errorf("Events about %d pods from %v, want %d from the scheduler and %d kubelets", len(about), reporters, pods, kubelets)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if len(nodes.Items) > 0 || err != nil {
		t.Errorf("%d nodes are left (%v)", len(nodes.Items), err)
	}
}
