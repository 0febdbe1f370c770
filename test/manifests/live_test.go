package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
)

// live installs objects and lets a replica do all that it ever does at the API server, from
// its start to its end: it leads, issues its certificate, knows and reports on policies and quotas,
// merges and drops.
func live(t *testing.T, c *cluster.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(shipped.Apply(t.Context(), c.Config, slices.DeleteFunc(slices.Clone(objects), isConfiguration)))
	program, err := replica.Build(t.Context(), t.TempDir())
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
	must(shipped.Apply(t.Context(), c.Config, slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return !isConfiguration(o)
	})))
	rules := []*unstructured.Unstructured{
		testPolicy("ClusterEventPolicy", "", "Drop"),
		testPolicy("EventPolicy", metav1.NamespaceDefault, "Limit"),
		testQuota(metav1.NamespaceDefault),
	}
	must(shipped.Apply(t.Context(), c.Config, rules))
	ceiling := &unstructured.Unstructured{}
	must(shipped.Find(objects, "ClusterEventQuota", "ceiling", &ceiling.Object))
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
		return apierrors.IsTooManyRequests(err), ignoreRefused(err)
	})
	eventually(t, "an Event is merged", func(context.Context) (bool, error) {
		n++
		err := write(fmt.Sprint("merged-", n), "Merged")
		return apierrors.IsAlreadyExists(err), ignoreRefused(err)
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
	readMetrics(t, admin, set.Replicas[0])
	must(set.Stop(t.Context(), 0))
}

// testPolicy is a policy about Events whose reason is Dropped.
func testPolicy(kind, namespace, action string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "eventquota.io/v1alpha1", "kind": kind,
		"spec": map[string]any{
			"action": action,
			"match":  map[string]any{"conditions": []any{map[string]any{"name": "dropped", "expression": "event.reason == 'Dropped'"}}},
		},
	}}
	p.SetName("test")
	p.SetNamespace(namespace)
	if kind == "ClusterEventPolicy" {
		p.Object["spec"].(map[string]any)["tier"] = "Admin"
	}
	return p
}

// testQuota is a quota that is never exhausted.
func testQuota(namespace string) *unstructured.Unstructured {
	q := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "eventquota.io/v1alpha1", "kind": "EventQuota",
		"spec": map[string]any{"limits": []any{map[string]any{"name": "all", "burst": int64(1000), "tokens": int64(1000)}}},
	}}
	q.SetName("test")
	q.SetNamespace(namespace)
	return q
}

func isReady(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

func isConfiguration(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().Group == "admissionregistration.k8s.io"
}

// ignoreRefused is nil for what the webhook answers to an Event that it merges or drops.
func ignoreRefused(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsTooManyRequests(err) {
		return nil
	}
	return err
}
