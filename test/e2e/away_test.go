package e2e

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// webhookTimeout is how long the API server waits for the webhook, as shipped.
	webhookTimeout = time.Second
	// openWithin is how many calls of one replica may fail until it no longer asks Redis: five in a row,
	// those that are under way then, and the settler's.
	openWithin = 30
)

// TestStoreAway holds I5 and the limits for two replicas whose Redis does not
// answer, and I1 for when it is back.
func TestStoreAway(t *testing.T) {
	if !isolated(t) {
		return
	}
	for _, tt := range []struct {
		name string
		away func(t *testing.T, server *redistest.Server) away
	}{
		{"Redis is stopped", func(t *testing.T, server *redistest.Server) away {
			t.Helper()
			return away{server.Addr(), server.Stop, func() error { return server.Restart(t.Context()) }}
		}},
		{"Redis is paused", func(_ *testing.T, server *redistest.Server) away {
			return away{server.Addr(), server.Pause, server.Resume}
		}},
		{"Redis answers after 5 s", func(t *testing.T, server *redistest.Server) away {
			t.Helper()
			p := newSlowProxy(t, server.Addr())
			slow := func(d time.Duration) func() error {
				return func() error { p.delay.Store(int64(d)); return nil }
			}
			return away{p.listener.Addr().String(), slow(5 * time.Second), slow(0)}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := standalone(t)
			server, err := r.master(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			a := tt.away(t, server)
			e := newSetEnv(t, 2, "--redis-addresses="+a.address, "--calls-per-connection=10")
			a.test(&faultEnv{setEnv: e, redis: r})
		})
	}
}

// away is a Redis that goes away and comes back.
type away struct {
	address    string
	goes, back func() error
}

func (a away) test(e *faultEnv) {
	namespace := e.namespace("away")
	e.leader()
	nothing := func() {}
	healthy := e.writeAll(namespace, "healthy", 100, nothing)
	e.Logf("with Redis: %s", healthy)
	if healthy.dropped == 0 {
		e.Errorf("all %d Events of one source and object were stored: that is no limit", healthy.stored)
	}

	e.must(a.goes())
	e.opens(namespace)
	alone := e.writeAll(namespace, "alone", 200, nothing)
	e.Logf("without: %s", alone)
	// A bucket is full at each replica that has not heard of it.
	if most := len(e.set.Replicas) * healthy.stored; alone.stored > most || alone.stored < healthy.stored {
		e.Errorf("%d Events of one source and object were stored, want %d by each of the replicas it went to, %d at most",
			alone.stored, healthy.stored, most)
	}
	e.must(e.storm(namespace, 60))
	e.noneFailed()

	e.must(a.back())
	back := time.Now()
	e.eventually("all replicas ask Redis again", func() bool { return slices.Max(e.each(storeUnavailable)) == 0 })
	e.Logf("all replicas ask Redis again %s after it is back", time.Since(back).Round(time.Millisecond))
	e.quiet()
	e.decidedAlone()
	e.noneFailed()
	(&faultyStorm{faultEnv: e, namespace: namespace}).holds(0, 0)
}

// opens holds that each replica soon asks Redis no more.
func (e *faultEnv) opens(namespace string) {
	e.Helper()
	failed := make([]int64, len(e.set.Replicas))
	before := e.each(storeErrors)
	var pods int
	// All calls of a connection reach one replica, so nobody knows how many it takes to reach each.
	e.eventually("each replica stopped to ask Redis", func() bool {
		pods++
		opening := e.writeAll(namespace, fmt.Sprint("opening-", pods), 20, func() {
			away, now := e.each(storeUnavailable), e.each(storeErrors)
			for i := range failed {
				if failed[i] == 0 && away[i] == 1 {
					failed[i] = now[i] - before[i]
				}
			}
		})
		e.Logf("when Redis goes away: %s; calls of each replica that failed: %d", opening, failed)
		return slices.Min(failed) > 0
	})
	for i, n := range failed {
		if n > openWithin {
			e.Errorf("replica %d stopped to ask Redis after %d calls that failed, want %d at most", i, n, openWithin)
		}
	}
}

// slowProxy passes on what a client says to a server at once, and the answers
// after a delay: what the client gave up waiting for has been carried out.
type slowProxy struct {
	listener net.Listener
	server   string
	delay    atomic.Int64 // nanoseconds

	mu    sync.Mutex
	conns []net.Conn
}

// newSlowProxy starts a proxy without delay, which ends with the test.
func newSlowProxy(t *testing.T, server string) *slowProxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &slowProxy{listener: listener, server: server}
	t.Cleanup(p.close)
	go p.serve()
	return p
}

func (p *slowProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		go p.answer(client, server)
	}
}

// answer passes on what the server says, in order.
func (p *slowProxy) answer(client, server net.Conn) {
	type part struct {
		content []byte
		due     time.Time
	}
	parts := make(chan part, 1<<16)
	go func() {
		defer client.Close()
		for next := range parts {
			<-time.After(time.Until(next.due))
			if _, err := client.Write(next.content); err != nil {
				break // the client has gone
			}
		}
		for range parts { // so that the server is read from to its end
		}
	}()
	defer close(parts)
	for {
		content := make([]byte, 32<<10)
		n, err := server.Read(content)
		if n > 0 {
			parts <- part{content[:n], time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			return
		}
	}
}

func (p *slowProxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}

// written is what became of Events that were written one after the other.
type written struct {
	stored, merged, dropped int
	waits                   []time.Duration // of the writer, for each Event
}

// writeAll writes n Events about a pod, each of a reason of its own, so that none
// is merged and each costs a token. after is called after each.
func (e *env) writeAll(namespace, pod string, n int, after func()) (w written) {
	e.Helper()
	for i := range n {
		event := coreEvent(namespace, fmt.Sprintf("%s-%d", pod, i), pod, "one of a kind")
		event.Reason = fmt.Sprintf("Reason%d", i)
		begun := time.Now()
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		w.waits = append(w.waits, time.Since(begun))
		switch {
		case err == nil:
			w.stored++
		case apierrors.IsAlreadyExists(err):
			w.merged++
		case apierrors.IsTooManyRequests(err):
			w.dropped++
		default:
			e.must(err)
		}
		after()
	}
	slices.Sort(w.waits)
	return w
}

// part is the wait that a part of all is not longer than.
func (w written) part(p float64) time.Duration { return w.waits[int(p*float64(len(w.waits)-1))] }

// longer is how many waits are longer than d.
func (w written) longer(d time.Duration) int {
	shorter, _ := slices.BinarySearch(w.waits, d)
	return len(w.waits) - shorter
}

func (w written) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d stored, %d merged, %d dropped; waited %s (p50), %s (p99), %s (max); %d longer than 50ms",
		w.stored, w.merged, w.dropped, ms(w.part(0.5)), ms(w.part(0.99)), ms(w.part(1)), w.longer(50*time.Millisecond))
}
