package watch_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

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

func TestTenantsDoNotDelayTheAdmin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const tenants = 28 // as many as fit
	for i := range tenants {
		r.own.Add(object(t, fmt.Sprint("n", i), "p", 1, largest))
	}
	r.cluster.Add(object(t, "", "first", 1, "tier: Admin"))
	r.start(t)
	if got := governs(r.Cache, "other"); got != "ClusterEventPolicy first@1" {
		t.Errorf("%s governs once synced", got)
	}
	eventually(t, "the first is compiled", func() bool { return r.pending() < tenants })
	r.cluster.Add(object(t, "", "brake", 1, "tier: Admin, precedence: 1, action: Drop"))
	r.wantGoverns(t, "other", "ClusterEventPolicy brake@1")
	if n := r.pending(); n < tenants/2 {
		t.Errorf("%d rules are pending, want most", n)
	}
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
