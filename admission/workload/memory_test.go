package workload_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/workload"
)

// TestMemoryOfLargeCluster checks the bound in docs/operations.md for 5,000 nodes with 150,000 pods, 5,000 Deployments with 10 old
// ReplicaSets each, and MaxDeletedPods deleted pods.
func TestMemoryOfLargeCluster(t *testing.T) {
	const podCount, deployments, revisions = 150_000, 5_000, 11
	before := heapBytes()
	r := newRig(t)
	for d := range deployments {
		for i := range revisions {
			name := fmt.Sprintf("service-%d-%08x", d, i)
			r.UpsertReplicaSet(object(name, uid(d, i), controlledBy("apps/v1", "Deployment", fmt.Sprintf("service-%d", d), uid(d, -1))))
		}
	}
	pod := func(i int) *metav1.PartialObjectMetadata {
		d := i % deployments
		return object(fmt.Sprintf("service-%d-%08x-%05d", d, 0, i), uid(i, podCount), controlledBy("apps/v1", "ReplicaSet", fmt.Sprintf("service-%d-%08x", d, 0), uid(d, 0)))
	}
	for i := range podCount + workload.MaxDeletedPods {
		r.UpsertPod(pod(i))
	}
	for i := range workload.MaxDeletedPods {
		r.DeletePod(pod(podCount + i))
	}
	held := heapBytes() - before
	if pods, deleted, owners := r.Sizes(); pods != podCount || deleted != workload.MaxDeletedPods || owners != deployments*revisions {
		t.Fatalf("%d pods, %d deleted pods and %d owners are cached", pods, deleted, owners)
	}
	t.Logf("%.1f MiB, %d bytes a pod", float64(held)/(1<<20), held/podCount)
	if held > 50<<20 {
		t.Errorf("the Cache takes %d MiB, want at most 50", held>>20)
	}
	if _, _, known := r.FindName("shop", "Pod", "service-7-00000000-00007", ""); !known {
		t.Error("a pod is not found")
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// uid returns a uid as long as those of the API server.
func uid(a, b int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(a), uint32(b)) }

func BenchmarkFindName(b *testing.B) {
	c := workload.New(workload.Sources{}, time.Now)
	c.UpsertPod(object("db-0", "p", controlledBy("apps/v1", "StatefulSet", "db", "s")))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, known := c.FindName("shop", "Pod", "db-0", "p"); !known {
			b.Fatal("unknown")
		}
	}
}
