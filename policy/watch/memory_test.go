package watch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// largeAPIServer is an API server whose EventPolicies are all in one namespace, and whose objects have large labels, annotations,
// owners, finalizers, managed fields and statuses. It makes them as it writes them, and keeps none.
type largeAPIServer struct {
	policies, namespaces int
	bytes                int // of metadata and status that each object has

	metadata, text string

	watched atomic.Int64 // objects that have been sent to watches
	lists   atomic.Int64 // requests for pages
}

// ServeHTTP implements http.Handler.
func (h *largeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	of, n := func(io.Writer, int) {}, 0
	switch {
	case strings.HasSuffix(r.URL.Path, "/eventpolicies"):
		of, n = h.policy, h.policies
	case strings.HasSuffix(r.URL.Path, "/namespaces"):
		of, n = h.namespace, h.namespaces
	}
	w.Header().Set("Content-Type", "application/json")
	if q.Get("watch") != "" {
		for i := range n { // each is changed
			_, _ = io.WriteString(w, `{"type":"MODIFIED","object":`)
			of(w, i)
			_, _ = io.WriteString(w, "}\n")
			h.watched.Add(1)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	h.lists.Add(1)
	from, _ := strconv.Atoi(q.Get("continue"))
	to := n
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 {
		to = min(n, from+limit)
	}
	next := ""
	if to < n {
		next = strconv.Itoa(to)
	}
	_, _ = io.WriteString(w, "{"+kindOfList(r)+`,"metadata":{"resourceVersion":"1","continue":"`+next+`"},"items":[`)
	for i := from; i < to; i++ {
		of(w, i)
		if i < to-1 {
			_, _ = io.WriteString(w, ",")
		}
	}
	_, _ = io.WriteString(w, "]}")
}

// policy writes one of the policies, of which the last is the oldest.
func (h *largeAPIServer) policy(w io.Writer, i int) {
	fmt.Fprintf(w, `{"apiVersion":"eventquota.io/v1alpha1","kind":"EventPolicy","metadata":{"name":"p%06d","namespace":"a","uid":"u%[1]d","generation":1,`+
		`"resourceVersion":"2","creationTimestamp":%[2]q,`, i, time.Unix(int64(2_000_000_000-i), 0).UTC().Format(time.RFC3339))
	_, _ = io.WriteString(w, h.metadata)
	_, _ = io.WriteString(w, `},"spec":{"action":"Drop"},"status":{"conditions":[{"message":"`)
	_, _ = io.WriteString(w, h.text)
	_, _ = io.WriteString(w, `"}]}}`)
}

func (h *largeAPIServer) namespace(w io.Writer, i int) {
	fmt.Fprintf(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"n%d","resourceVersion":"2",`, i)
	_, _ = io.WriteString(w, h.metadata)
	_, _ = io.WriteString(w, "}}")
}

// fillMetadata makes what each object has.
func (h *largeAPIServer) fillMetadata() {
	var b strings.Builder
	h.text = strings.Repeat("x", h.bytes/4)
	for _, of := range []string{"labels", "annotations"} {
		fmt.Fprintf(&b, `"%s":{`, of)
		for i := range h.bytes / 4 / 64 {
			fmt.Fprintf(&b, `"example.com/%07d":"%040d",`, i, i)
		}
		b.WriteString(`"z":"z"},`)
	}
	fmt.Fprintf(&b, `"finalizers":["%s"],"ownerReferences":[{"name":"%[1]s"}],"managedFields":[{"manager":"%[1]s"}]`, strings.Repeat("x", h.bytes/12))
	h.metadata = b.String()
}

// TestCacheMemoryIsBounded bounds the memory for namespaces and their objects, however many and large they are, both
// while they are listed and watched and afterwards. Lists must take few requests.
func TestCacheMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads hundreds of megabytes of objects") //nolint:forbidigo // -short asks for it
	}
	// Garbage must not count, whatever GOGC is.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	const buffers, keptEach, most = 8 << 20, 64 << 10, 32 << 20
	for says, h := range map[string]*largeAPIServer{
		"few that are as large as can be": {policies: 50, bytes: 1 << 20},
		"500 of 100 KB":                   {policies: 500, bytes: 100_000},
		"very many small ones":            {policies: 10_000, bytes: 64},
		"namespaces":                      {namespaces: 100, bytes: 512 << 10},
	} {
		t.Run(says, func(t *testing.T) {
			h.fillMetadata()
			c := h.cache(t)
			before := heap()
			h.runUntilRelisted(t, c, before+most)
			if n, most := h.lists.Load(), int64(h.policies+h.namespaces)/100+5; n > most { // a page of each kind, and those that are full
				t.Errorf("%d requests for lists, want at most %d", n, most)
			}
			if n := len(c.Reports()); n != min(watch.MaxKeptRules, h.policies) {
				t.Errorf("%d rules are kept", n)
			}
			for _, report := range c.Reports() {
				if i, err := strconv.Atoi(report.Name[1:]); err != nil || i < h.policies-watch.MaxKeptRules || (report.Excluded != nil) != (i < h.policies-policy.MaxRules) {
					t.Errorf("kept: %s, in force %v", report.Name, report.Excluded == nil)
				}
			}
			kept := int64(buffers + keptEach*(watch.MaxKeptRules+h.namespaces))
			if used := heap() - before; used > kept {
				t.Errorf("%d KiB are kept, want at most %d", used>>10, kept>>10)
			}
			runtime.KeepAlive(c)
		})
	}
}

// cache is one of what h has, which does not run yet.
func (h *largeAPIServer) cache(t *testing.T) *watch.Cache {
	t.Helper()
	api := httptest.NewServer(h)
	t.Cleanup(api.Close)
	c, err := watch.New(sourcesOf(t, &rest.Config{Host: api.URL, QPS: -1}), policy.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// runUntilRelisted runs a Cache until it has all objects of h, and has listed them a second time. It must never use more than most bytes
// of memory.
func (h *largeAPIServer) runUntilRelisted(t *testing.T, c *watch.Cache, most int64) {
	t.Helper()
	var peak int64
	var measuring sync.WaitGroup
	end := make(chan struct{})
	measuring.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for every := time.NewTicker(time.Millisecond); ; {
			select {
			case <-end:
				return
			case <-every.C:
				metrics.Read(sample)
				peak = max(peak, int64(sample[0].Value.Uint64()))
			}
		}
	})
	run(t, c)
	eventually(t, "known", func() bool {
		if !c.HasSynced() || h.watched.Load() < int64(h.policies+h.namespaces) {
			return false
		}
		for _, report := range c.Reports() {
			if report.Pending {
				return false
			}
		}
		return true
	})
	close(end)
	measuring.Wait()
	t.Logf("at most %d MiB", peak>>20)
	if peak > most {
		t.Errorf("%d MiB are used while objects are read, want at most %d", peak>>20, most>>20)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
