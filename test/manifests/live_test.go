package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
)

// exerciseReplica makes a replica send every kind of request that it ever sends to the API server. It is elected, issues its
// certificate, reads policies and quotas and writes their status, merges and drops.
func exerciseReplica(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	program, err := replica.Build(t.Context())
	must(err)
	redis := redistest.Start(t, redistest.Options{})
	set, err := replica.StartSet(t.Context(), c, program, 1,
		"--self-managed-certificates", "--redis-addresses="+redis.Addr(), "--store-deadline=1s", "--deadline=2s", "--metrics-secure=true")
	must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the replica:\n%s", set.Replicas[0].Log())
		}
		set.Close()
	})
	match := map[string]any{"conditions": []any{map[string]any{"name": "dropped", "expression": "event.reason == 'Dropped'"}}}
	own := map[string]any{"reasons": []any{"Dropped"}, "messages": []any{"*"}}
	never := []any{map[string]any{"name": "all", "burst": int64(1000), "tokens": int64(1000)}}
	rules := []*unstructured.Unstructured{
		rule(v1alpha1.KindClusterEventPolicy, "", map[string]any{"tier": "Admin", "action": "Drop", "match": match}),
		rule(v1alpha1.KindEventPolicy, metav1.NamespaceDefault, map[string]any{"action": "Limit", "match": own}),
		rule(v1alpha1.KindEventQuota, metav1.NamespaceDefault, map[string]any{"limits": never}),
	}
	must(shipped.Apply(t.Context(), c.Config, rules))
	ceiling := &unstructured.Unstructured{}
	ceiling.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterEventQuota))
	ceiling.SetName("ceiling")
	rules = append(rules, ceiling)

	admin, err := kubernetes.NewForConfig(c.Config)
	must(err)
	write := func(name, reason string) error {
		_, err := admin.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceDefault},
			Reason:         reason, Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "test"},
		}, metav1.CreateOptions{})
		return err
	}
	n := 0
	eventually(t, "an Event is dropped", func(context.Context) (bool, error) {
		n++
		err := write(fmt.Sprint("dropped-", n), "Dropped")
		return eventtest.Refusal(err) == admission.Dropped, ignoreRefused(err)
	})
	eventually(t, "an Event is merged", func(context.Context) (bool, error) {
		n++
		err := write(fmt.Sprint("merged-", n), "Merged")
		return eventtest.Refusal(err) == admission.Merged, ignoreRefused(err)
	})
	reader, err := client.New(c.Config, client.Options{})
	must(err)
	eventually(t, "the ceiling, and one of each other kind, are Ready", func(ctx context.Context) (bool, error) {
		for _, r := range rules {
			if err := reader.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return false, err
			}
			if !isReady(r) {
				return false, nil
			}
		}
		return true, nil
	})
	eventually(t, "the merged Event is written, and a notice of the dropped one", func(ctx context.Context) (bool, error) {
		events, err := admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		merged, dropped := false, false
		for i := range events.Items {
			e := &events.Items[i]
			merged = merged || e.Reason == "Merged" && e.Count > 1
			dropped = dropped || e.Reason == "EventsDropped"
		}
		return merged && dropped, nil
	})
	ended := []*unstructured.Unstructured{
		rule(v1alpha1.KindClusterEventPolicy, "", map[string]any{"action": "Drop", "mode": "Disabled", "tier": "Admin"}),
		rule(v1alpha1.KindEventPolicy, metav1.NamespaceDefault, map[string]any{"action": "Drop", "mode": "Disabled"}),
	}
	for _, brake := range ended {
		brake.SetName(v1alpha1.BrakeName)
		brake.SetAnnotations(map[string]string{v1alpha1.AnnotationBrakeUntil: "2026-01-02T15:04:05Z"})
	}
	must(shipped.Apply(t.Context(), c.Config, ended, client.ForceOwnership))
	eventually(t, "the brakes whose end has passed are released", func(ctx context.Context) (bool, error) {
		for _, brake := range ended {
			if err := reader.Get(ctx, client.ObjectKeyFromObject(brake), brake); err != nil {
				return false, err
			}
			if brake.GetAnnotations()[v1alpha1.AnnotationBrakeUntil] != "" {
				return false, nil
			}
		}
		return true, nil
	})
	readMetrics(t, admin, set.Replicas[0])
	must(set.Stop(t.Context(), 0))
}

// rule returns a policy or quota of the given kind.
func rule(kind, namespace string, spec map[string]any) *unstructured.Unstructured {
	r := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	r.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	r.SetName("test")
	r.SetNamespace(namespace)
	return r
}

func isReady(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// ignoreRefused returns nil if the webhook refused the Event, and err otherwise.
func ignoreRefused(err error) error {
	if eventtest.Refusal(err) != "" {
		return nil
	}
	return err
}
