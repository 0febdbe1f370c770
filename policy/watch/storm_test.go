package watch_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// largest is the spec of the largest rule that is allowed, of expressions that need much memory. It governs.
// large is nearly as large, and four of them are too many for a namespace.
var (
	largest = conditions(16, "[1].all(x,[1].all(y,x==y))||")
	large   = conditions(16, "event.message.contains('a')||")
)

func conditions(n int, part string) string {
	const bytes = 2048
	expression := strings.Repeat(part, (bytes-len("true"))/max(1, len(part))) + "true"
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{name: c%d, expression: "%s"}`, i, expression)
	}
	return "match: {conditions: [" + strings.Join(all, ", ") + "]}"
}

// TestTenantsDoNotDelayTheAdmin has a part of the space: compiling what fits into all of it takes a minute under the
// race detector.
func TestTenantsDoNotDelayTheAdmin(t *testing.T) {
	r := newRig(t)
	r.SetPatience(0)
	const tenants, totalSize = 500, watch.TotalSize / 16
	r.SetTotalSize(totalSize)
	one := object(t, "n", "p", 1, large)
	for i := range tenants {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": one.Object["spec"]}} // shared: what is measured is more than this
		o.SetGroupVersionKind(one.GroupVersionKind())
		o.SetNamespace(fmt.Sprint("n", i))
		o.SetName("p")
		o.SetUID("uid of p")
		o.SetGeneration(1)
		r.own.Add(o)
	}
	r.cluster.Add(object(t, "", "first", 1, "tier: Admin"))
	before := heap()
	r.start(t)
	if got := governs(r.Cache, "other"); got != "ClusterEventPolicy first@1" {
		t.Errorf("%s governs once synced", got)
	}
	eventually(t, "all rules of idle namespaces are pending", func() bool { return r.pending() == tenants })
	t.Logf("with %d tenants that send nothing: %d MiB", tenants, grown(before))

	// More than fit: the memory of the first is used again.
	const fit = totalSize / (16 * 2048)
	allSend := func() {
		for _, i := range rand.Perm(tenants) {
			governs(r.Cache, fmt.Sprint("n", i))
		}
	}
	eventually(t, "compiled", func() bool {
		allSend()
		return r.pending() < tenants-3*fit
	})
	eventually(t, "tenants that all have sent take 11 MiB at most, once nothing is being compiled", func() bool { return grown(before) <= 11 })
	r.cluster.Add(object(t, "", "brake", 1, "tier: Admin, precedence: 1, action: Drop"))
	eventually(t, "in force while there are always tenants' rules to compile", func() bool {
		allSend()
		return governs(r.Cache, "other") == "ClusterEventPolicy brake@1"
	})
	if n := r.pending(); n < tenants/2 {
		t.Errorf("%d rules are pending, want most", n)
	}
	runtime.KeepAlive(r)
}

func TestTheSizeOfARuleIsWhatItNeeds(t *testing.T) {
	for name, spec := range map[string]string{"largest": largest, "small": conditions(16, "")} {
		const bytesOfMemory = 128
		c, err := policy.NewCompiler()
		if err != nil {
			t.Fatal(err)
		}
		in := object(t, "a", "p", 1, spec)
		if _, err := c.Compile(in); err != nil { // and what is made once
			t.Fatal(err)
		}
		before := heap()
		made, _ := c.Compile(in)
		size := int64(watch.SizeOf(in))
		if took := heap() - before; took > size*bytesOfMemory || took < size*bytesOfMemory/3 {
			t.Errorf("%s: %d bytes of memory for a size of %d, want about %d for each", name, took, size, bytesOfMemory)
		}
		runtime.KeepAlive(made)
		runtime.KeepAlive(c) // its schemas
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// grown is by how many MiB the heap has grown.
func grown(since int64) int64 { return (heap() - since) >> 20 }
