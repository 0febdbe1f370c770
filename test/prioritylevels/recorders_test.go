package prioritylevels

import (
	"flag"
	"maps"
	"net/http"
	"runtime"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// maxTries is the number of times that client-go sends a request if every answer has a Retry-After header.
	maxTries = 11
	// queuedEvents is the number of Events that a core/v1 recorder queues in addition to the one that it sends.
	queuedEvents = 1000
)

// burst is the number of Warnings that a recorder records while the level is full. docs/priority-levels.md has figures of 10,000.
var burst = flag.Int("burst", 3*queuedEvents, "number of Warnings in a burst, more than a recorder queues")

// TestRecordersWithFullLevel checks what docs/priority-levels.md says about client-go's recorders while a full priority level rejects their
// Events. With -burst 10000 it logs the figures of the table there.
func TestRecordersWithFullLevel(t *testing.T) {
	c := newSmallLevel(t)
	err := c.Grant(t.Context(), "write-events-of-events.k8s.io", "system:authenticated",
		rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes %s", c.Version)
	t.Run("one Event", c.checkSingleEvent)
	t.Run("a burst of core/v1", c.checkLegacyBurst)
	t.Run("a burst of events.k8s.io", c.checkSeriesBurst)
}

// checkSingleEvent checks that both recorders send an Event maxTries times and then lose it. Each try is a request and a line of the audit
// log. The only other trace is one line in the recorder's log.
func (c *smallLevelCluster) checkSingleEvent(t *testing.T) {
	recorders := []*recorder{startLegacy(t, c, "once-core"), startSeries(t, c, "once-series")}
	c.whileFull(t, func() {
		for _, r := range recorders {
			r.warn(0)
		}
		for _, r := range recorders {
			eventually(t, "the recorder gives up", func() bool { return r.snapshot().abandoned == 1 })
		}
	})
	for _, r := range recorders {
		counts := r.snapshot()
		if want := map[int]int{http.StatusTooManyRequests: maxTries}; !maps.Equal(counts.answers, want) || counts.lines != 1 {
			t.Errorf("%s: got answers %v and %d log lines, want %v and 1", r.user, counts.answers, counts.lines, want)
		}
		if lines := c.auditLines(t, r.user); !maps.Equal(lines, counts.answers) {
			t.Errorf("%s: got audit log lines %v, want one for each of the answers %v", r.user, lines, counts.answers)
		}
		if stored := c.storedSerials(t, r); len(stored) > 0 {
			t.Errorf("%s: the Event was stored, want it lost", r.user)
		}
		t.Logf("%s: %d requests and audit log lines, no Event stored", r.user, counts.answers[http.StatusTooManyRequests])
	}
}

// checkLegacyBurst checks that the core/v1 recorder makes one request at a time and queues 1,000 Events. It drops all newer Events, most of
// them without a log line.
func (c *smallLevelCluster) checkLegacyBurst(t *testing.T) {
	r := startLegacy(t, c, "core")
	before := processUsage()
	var full usage
	c.whileFull(t, func() {
		r.warn(0)
		eventually(t, "the first Event is rejected", func() bool { return r.snapshot().answers[http.StatusTooManyRequests] > 0 })
		for serial := 1; serial < *burst; serial++ {
			r.warn(serial)
			runtime.Gosched() // otherwise the recorder cannot distribute some Events in time, and logs them
		}
		full = processUsage().minus(before)
	})
	eventually(t, "the queued Events are stored", func() bool { return r.snapshot().answers[http.StatusCreated] >= 1+queuedEvents })
	stored, counts := c.storedSerials(t, r), r.snapshot()
	c.logBurst(t, r, len(stored), full)
	for serial := range 1 + queuedEvents {
		if !stored[serial] {
			t.Fatalf("Event %d was lost, want the oldest %d stored", serial, 1+queuedEvents)
		}
	}
	lost := *burst - len(stored)
	if len(stored) != 1+queuedEvents || counts.lines > lost/2 || counts.maxInFlight != 1 {
		t.Errorf("got %d Events stored, %d log lines and %d concurrent requests, want %d, at most half of the lost Events, and 1", len(stored), counts.lines, counts.maxInFlight, 1+queuedEvents)
	}
	if full.goroutines >= queuedEvents {
		t.Errorf("got %d more goroutines, want none for queued Events", full.goroutines)
	}
}

// checkSeriesBurst checks that the events.k8s.io recorder has a goroutine for each waiting Event and sends Events concurrently. It loses no
// Event that is accepted within maxTries.
func (c *smallLevelCluster) checkSeriesBurst(t *testing.T) {
	r := startSeries(t, c, "series")
	before := processUsage()
	var full usage
	c.whileFull(t, func() {
		for serial := range *burst {
			r.warn(serial)
			if serial%100 == 0 { // a faster burst would need too many connections, and overflow the recorder's queue of 1,000 Events
				eventually(t, "the recorder starts to send them", func() bool { return r.snapshot().started > serial })
				eventually(t, "as many tries are rejected", func() bool { return r.snapshot().answers[http.StatusTooManyRequests] > serial })
			}
		}
		eventually(t, "as many tries are rejected as Events were recorded", func() bool { return r.snapshot().answers[http.StatusTooManyRequests] >= *burst })
		full = processUsage().minus(before)
	})
	counts := r.waitForOutcomes(t)
	stored := c.storedSerials(t, r)
	c.logBurst(t, r, len(stored), full)
	if len(stored) != *burst || counts.abandoned > 0 {
		t.Errorf("got %d Events stored and %d given up, want %d and 0", len(stored), counts.abandoned, *burst)
	}
	if full.goroutines < *burst || counts.maxInFlight < 2 {
		t.Errorf("got %d more goroutines and %d concurrent requests, want at least %d and 2", full.goroutines, counts.maxInFlight, *burst)
	}
}

// waitForOutcomes waits until each Event is stored or given up. The test fails if a tenth of the Events takes longer than waitTimeout.
func (r *recorder) waitForOutcomes(t *testing.T) requestCounts {
	t.Helper()
	// If a connection fails after the API server has stored the Event, the next try gets a conflict.
	done := func(counts requestCounts) int {
		return counts.answers[http.StatusCreated] + counts.answers[http.StatusConflict] + counts.abandoned
	}
	for {
		before := done(r.snapshot())
		if before >= *burst {
			return r.snapshot()
		}
		t.Logf("%d of %d Events are stored or given up: %+v", before, *burst, r.snapshot())
		eventually(t, "more Events are stored or given up", func() bool { return done(r.snapshot()) >= min(*burst, before+*burst/10) })
	}
}

// logBurst logs the figures of a burst.
func (c *smallLevelCluster) logBurst(t *testing.T, r *recorder, stored int, full usage) {
	t.Helper()
	counts := r.snapshot()
	t.Logf("%d Warnings recorded, %d stored, %d lost, %d lines in the recorder's log", *burst, stored, *burst-stored, counts.lines)
	t.Logf("requests by status %v, audit log lines by status %v; at most %d concurrent requests, %d connections, longest Retry-After %d s",
		counts.answers, c.auditLines(t, r.user), counts.maxInFlight, counts.connections, counts.retryAfter)
	t.Logf("increase while all Events are rejected: %d goroutines, %.1f MiB of heap, %.1f MiB of stacks", full.goroutines, mebibytes(full.heap), mebibytes(full.stacks))
}

// usage has the memory and goroutines of a process.
type usage struct {
	heap, stacks int64 // in bytes
	goroutines   int
}

// processUsage returns the usage of this process after a garbage collection.
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
