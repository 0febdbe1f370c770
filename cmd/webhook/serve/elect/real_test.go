package elect

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// TestElectionOnARealAPIServer holds that the rights suffice, that a leader that disappears is
// replaced, and one that stops is replaced sooner.
func TestElectionOnARealAPIServer(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	kubeconfig, err := replica.Kubeconfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	first := newCandidate(t, kubeconfig)
	first.await("leads")
	second, third := newCandidate(t, kubeconfig), newCandidate(t, kubeconfig)

	gone := time.Now()
	first.gone.Store(true)
	first.await("abandoned")
	leader, follower := second, third
	select {
	case <-second.leads:
	case <-third.leads:
		leader, follower = third, second
	case <-time.After(time.Minute):
		t.Fatal("no replica took over from a leader that disappeared")
	}
	killed := time.Since(gone)
	// A lease of 5 s that was renewed up to a second before.
	if killed < 3*time.Second {
		t.Errorf("it was followed after %s, while it might still lead", killed)
	}
	select {
	case <-follower.leads:
		t.Error("two lead")
	default:
	}

	stopped := time.Now()
	leader.stop()
	leader.await("drained")
	follower.await("leads")
	graceful := time.Since(stopped)
	t.Logf("followed after %s, after a stop after %s", killed, graceful)
	if graceful > killed {
		t.Errorf("a leader that stopped was replaced after %s, one that disappeared after %s", graceful, killed)
	}
}

// candidate is a replica that stands for election.
type candidate struct {
	t                         *testing.T
	gone                      atomic.Bool // the API server hears nothing from it any more
	stop                      context.CancelFunc
	leads, abandoned, drained chan struct{}
}

func newCandidate(t *testing.T, kubeconfig string) *candidate {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{t: t, leads: make(chan struct{}, 9), abandoned: make(chan struct{}, 9), drained: make(chan struct{}, 9)}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &wire{c, next} })
	e, err := New(config, DefaultOptions(), func(abandon <-chan struct{}) Runner {
		return settles(func(ctx context.Context) error {
			c.leads <- struct{}{}
			<-ctx.Done()
			select {
			case <-abandon:
				c.abandoned <- struct{}{}
			case <-time.After(100 * time.Millisecond):
				c.drained <- struct{}{}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// await waits until the candidate's settler has done something.
func (c *candidate) await(what string) {
	c.t.Helper()
	done := map[string]chan struct{}{"leads": c.leads, "abandoned": c.abandoned, "drained": c.drained}[what]
	select {
	case <-done:
	case <-time.After(time.Minute):
		c.t.Fatalf("not %s within a minute", what)
	}
}

// settles is a function that is Runner.
type settles func(ctx context.Context) error

// Run implements Runner.
func (f settles) Run(ctx context.Context) error { return f(ctx) }

// wire is what a candidate reaches the API server by.
type wire struct {
	*candidate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.gone.Load() {
		return nil, errors.New("no route to host")
	}
	return w.next.RoundTrip(r)
}
