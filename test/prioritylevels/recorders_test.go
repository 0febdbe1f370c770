package prioritylevels

import (
	"maps"
	"net/http"
	"runtime"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// maxTries are how often client-go sends a request that is answered with Retry-After.
	maxTries = 11
	// queuedEvents are the Events that a recorder of core/v1 keeps beside the one that it sends.
	queuedEvents = 1000
	// burstEvents are the Warnings of a burst.
	burstEvents = 10000
)

// TestRecordersWithFullLevel holds what docs/priority-levels.md says of client-go's recorders whose Events the priority level rejects,
// and prints the figures of its table.
func TestRecordersWithFullLevel(t *testing.T) {
	n := newSmallLevel(t)
	err := n.Grant(t.Context(), "write-events-of-events.k8s.io", "system:authenticated",
		rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes %s", n.Version)
	t.Run("one Event", n.checkSingleEvent)
	t.Run("a burst of core/v1", n.checkLegacyBurst)
	t.Run("a burst of events.k8s.io", n.checkSeriesBurst)
}

// checkSingleEvent holds that either recorder sends an Event 11 times and then loses it, that each try is a request and a line of the audit
// log, and that a line of the recorder's log is all that is left of it.
func (n *smallLevel) checkSingleEvent(t *testing.T) {
	recorders := []*recorder{startLegacy(t, n, "once-core"), startSeries(t, n, "once-series")}
	n.whileFull(t, func() {
		for _, r := range recorders {
			r.warn(0)
		}
		for _, r := range recorders {
			eventually(t, "the recorder gives up", func() bool { return r.snapshot().abandoned == 1 })
		}
	})
	for _, r := range recorders {
		a := r.snapshot()
		if want := map[int]int{http.StatusTooManyRequests: maxTries}; !maps.Equal(a.answers, want) || a.lines != 1 {
			t.Errorf("%s: answers %v and %d lines of log, want %v and one", r.user, a.answers, a.lines, want)
		}
		if lines := n.auditLines(t, r.user); !maps.Equal(lines, a.answers) {
			t.Errorf("%s: lines of the audit log %v, want one for each of the answers %v", r.user, lines, a.answers)
		}
		if stored := n.storedSerials(t, r); len(stored) > 0 {
			t.Errorf("%s: the Event is stored", r.user)
		}
		t.Logf("%s: %d requests and lines of the audit log, none stored", r.user, a.answers[http.StatusTooManyRequests])
	}
}

// checkLegacyBurst holds that the recorder of core/v1 makes one request at a time, keeps 1,000 Events beside it, and drops all newer ones,
// most of them without a trace.
func (n *smallLevel) checkLegacyBurst(t *testing.T) {
	r := startLegacy(t, n, "core")
	before := processUsage()
	var full usage
	n.whileFull(t, func() {
		r.warn(0)
		eventually(t, "the first Event is rejected", func() bool { return r.snapshot().answers[http.StatusTooManyRequests] > 0 })
		for serial := 1; serial < burstEvents; serial++ {
			r.warn(serial)
			runtime.Gosched() // the recorder logs the few that it has no time to distribute
		}
		full = processUsage().minus(before)
	})
	eventually(t, "what was kept is stored", func() bool { return r.snapshot().answers[http.StatusCreated] >= 1+queuedEvents })
	stored, a := n.storedSerials(t, r), r.snapshot()
	n.log(t, r, len(stored), full)
	for serial := range 1 + queuedEvents {
		if !stored[serial] {
			t.Fatalf("Event %d is lost, want the oldest %d stored", serial, 1+queuedEvents)
		}
	}
	lost := burstEvents - len(stored)
	if len(stored) != 1+queuedEvents || a.lines > lost/2 || a.maxInFlight != 1 {
		t.Errorf("%d Events stored, %d lines of log, %d requests at a time, want %d, few and one", len(stored), a.lines, a.maxInFlight, 1+queuedEvents)
	}
	if full.goroutines >= queuedEvents {
		t.Errorf("%d goroutines more than before, want none for an Event that waits", full.goroutines)
	}
}

// checkSeriesBurst holds that the recorder of events.k8s.io keeps a goroutine for each Event that waits, sends them at the same time, and
// loses none while tries are left.
func (n *smallLevel) checkSeriesBurst(t *testing.T) {
	r := startSeries(t, n, "series")
	before := processUsage()
	var full usage
	n.whileFull(t, func() {
		for serial := range burstEvents {
			r.warn(serial)
			if serial%100 == 0 { // all at once would take as many connections, and fill the recorder's queue, which drops what is beyond 1,000
				eventually(t, "the recorder has begun with them", func() bool { return r.snapshot().started > serial })
				eventually(t, "most are rejected", func() bool { return r.snapshot().answers[http.StatusTooManyRequests] > serial })
			}
		}
		eventually(t, "as many are rejected as were recorded", func() bool { return r.snapshot().answers[http.StatusTooManyRequests] >= burstEvents })
		full = processUsage().minus(before)
	})
	a := r.waitForOutcomes(t)
	stored := n.storedSerials(t, r)
	n.log(t, r, len(stored), full)
	if len(stored) != burstEvents || a.abandoned > 0 {
		t.Errorf("%d Events stored, %d given up, want %d and none", len(stored), a.abandoned, burstEvents)
	}
	if full.goroutines < burstEvents || a.maxInFlight < 2 {
		t.Errorf("%d goroutines more than before, %d requests at a time, want at least %d and several", full.goroutines, a.maxInFlight, burstEvents)
	}
}

// waitForOutcomes waits until each Event is stored or given up. It fails the test once a tenth of them takes longer than patience.
func (r *recorder) waitForOutcomes(t *testing.T) requestCounts {
	t.Helper()
	// A connection may fail after the API server has stored its Event, which exists for the next try then.
	done := func(a requestCounts) int {
		return a.answers[http.StatusCreated] + a.answers[http.StatusConflict] + a.abandoned
	}
	for {
		before := done(r.snapshot())
		if before >= burstEvents {
			return r.snapshot()
		}
		t.Logf("%d of %d Events are stored or given up: %+v", before, burstEvents, r.snapshot())
		eventually(t, "more Events are stored or given up", func() bool { return done(r.snapshot()) >= min(burstEvents, before+burstEvents/10) })
	}
}

// log prints the figures of a burst.
func (n *smallLevel) log(t *testing.T, r *recorder, stored int, full usage) {
	t.Helper()
	a := r.snapshot()
	t.Logf("%d Warnings recorded, %d stored, %d lost, %d lines of the recorder's log", burstEvents, stored, burstEvents-stored, a.lines)
	t.Logf("requests by answer %v, lines of the audit log %v; at most %d in flight, %d connections, longest Retry-After %d s",
		a.answers, n.auditLines(t, r.user), a.maxInFlight, a.connections, a.retryAfter)
	t.Logf("while all are rejected: %d goroutines, %.1f MiB of heap, %.1f MiB of stacks", full.goroutines, mebibytes(full.heap), mebibytes(full.stacks))
}

// usage is what the process of a recorder has.
type usage struct {
	heap, stacks int64 // in bytes
	goroutines   int
}

// processUsage is what this process has, without what can be collected.
func processUsage() usage {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), goroutines: runtime.NumGoroutine()}
}

func (u usage) minus(o usage) usage {
	return usage{u.heap - o.heap, u.stacks - o.stacks, u.goroutines - o.goroutines}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
