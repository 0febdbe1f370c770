package serve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// drain is how long each settler has to drain.
const drain = 10 * time.Second

// TestElection holds who settles, and when, as several replicas come and go.
func TestElection(t *testing.T) {
	t.Parallel()
	// A Lease that is no longer renewed is taken when it has run out since another replica saw it renewed. That sees it, and
	// then takes it, up to 2.2 retry periods later: client-go spreads them by that.
	const followed = leaseDuration + 2*2200*time.Millisecond
	for name, tt := range map[string]struct {
		story func(e *election)
		want  []string
	}{
		"one at a time, and another when it is stopped and has drained; a follower stops at once": {
			func(e *election) {
				e.start("a")
				e.advance(time.Second)
				e.start("b")
				e.advance(time.Minute)
				e.stop("a")
				e.requireNext(drain+followed, "b leads")
				e.start("c")
				e.advance(time.Second)
				e.stop("c")
				e.requireNext(0, "c ended")
				e.stop("b")
				e.advance(drain)
			},
			[]string{"a leads", "a drained", "a ended", "b leads", "c ended", "b drained", "b ended"},
		},
		"one that is cut off stops before another leads, and follows that one later": {
			func(e *election) {
				e.start("a")
				e.advance(time.Second)
				e.start("b")
				e.advance(time.Minute)
				e.setDisconnected("a", true)
				e.requireNext(4*time.Second, "a abandoned")
				e.requireNext(5400*time.Millisecond, "b leads")
				e.setDisconnected("a", false)
				e.advance(time.Minute)
				e.stop("b")
				e.requireNext(drain+followed, "a leads")
				e.stop("a")
				e.advance(drain)
			},
			[]string{"a leads", "a abandoned", "b leads", "b drained", "b ended", "a leads", "a drained", "a ended"},
		},
		"a drain is given up with the lease": {
			func(e *election) {
				e.start("a")
				e.advance(time.Second)
				e.start("b")
				e.advance(time.Second)
				e.stop("a")
				e.setDisconnected("a", true)
				e.requireNext(4*time.Second, "a ended")
				e.requireNext(5400*time.Millisecond, "b leads")
				e.stop("b")
				e.advance(drain)
			},
			[]string{"a leads", "a abandoned", "a ended", "b leads", "b drained", "b ended"},
		},
		"what a drain leaves is left to the next": {
			func(e *election) {
				e.leaveUndrained = true
				e.start("a")
				e.advance(time.Second)
				e.stop("a")
				e.requireNext(drain, "a ended")
			},
			[]string{"a leads", "a drained", "a ended"},
		},
		"a settler that fails by itself ends its replica, and another follows": {
			func(e *election) {
				e.broken = true
				e.start("a")
				e.requireNext(0, "a failed")
				e.broken = false
				e.start("b")
				e.requireNext(followed, "b leads")
				e.stop("b")
				e.advance(drain)
			},
			[]string{"a leads", "a failed", "b leads", "b drained", "b ended"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &election{t: t, stops: map[string]context.CancelFunc{}, disconnected: map[string]bool{}}
				tt.story(e)
				if got := e.takeJournal(); !slices.Equal(got, tt.want) {
					t.Errorf("got %q,\nwant %q", got, tt.want)
				}
			})
		})
	}
}

var errBroken = errors.New("broken")

// settle is a settler that records what it does and has much to drain.
func (e *election) settle(ctx context.Context, replica string, abandon <-chan struct{}) error {
	e.record(replica + " leads")
	if e.broken {
		return errBroken
	}
	<-ctx.Done()
	select {
	case <-abandon:
		e.record(replica + " abandoned")
	case <-time.After(drain):
		e.record(replica + " drained")
		if e.leaveUndrained {
			return errBroken
		}
	}
	return nil
}

// election is a lease, and replicas that stand for it, within a synctest bubble.
type election struct {
	t *testing.T
	// What settlers do from now on: fail by themselves, or leave something.
	broken, leaveUndrained bool

	mu           sync.Mutex
	journal      []string
	lease        *resourcelock.LeaderElectionRecord
	version      int
	stops        map[string]context.CancelFunc
	disconnected map[string]bool
}

// start starts a replica.
func (e *election) start(replica string) {
	ctx, stop := context.WithCancel(e.t.Context())
	e.stops[replica] = stop
	stands := newElection(&replicaLease{election: e, replica: replica}, func(ctx context.Context, abandon <-chan struct{}) error {
		return e.settle(ctx, replica, abandon)
	})
	go func() {
		switch err := stands(ctx); {
		case err == nil:
			e.record(replica + " ended")
		case errors.Is(err, errBroken):
			e.record(replica + " failed")
		default:
			e.record(replica + ": " + err.Error())
		}
	}()
}

// stop asks a replica to stop.
func (e *election) stop(replica string) { e.stops[replica]() }

// setDisconnected takes the way to the API server from a replica, or gives it back.
func (e *election) setDisconnected(replica string, off bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disconnected[replica] = off
}

// advance lets time pass and everybody do what it brings.
func (e *election) advance(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// requireNext holds that something is the last that happened, after d at most.
func (e *election) requireNext(d time.Duration, what string) {
	e.t.Helper()
	e.advance(d)
	if told := e.takeJournal(); len(told) == 0 || told[len(told)-1] != what {
		e.t.Errorf("got %q, want %q last after %s", told, what, d)
	}
}

func (e *election) record(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.journal = append(e.journal, what)
}

func (e *election) takeJournal() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.journal)
}

// replicaLease is the lease as one replica sees it.
type replicaLease struct {
	*election
	replica string
	seen    int // version that was read or written last
}

var _ resourcelock.Interface = (*replicaLease)(nil)

// Get implements resourcelock.Interface.
func (l *replicaLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.checkConnected(ctx); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil {
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), leaseName)
	}
	l.seen = l.version
	record := *l.lease
	return &record, []byte{byte(l.version), byte(l.version >> 8)}, nil
}

// Create implements resourcelock.Interface.
func (l *replicaLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, func() bool { return l.lease == nil })
}

// Update implements resourcelock.Interface.
func (l *replicaLease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, func() bool { return l.seen == l.version })
}

// checkConnected fails as a client does that gets no answer.
func (l *replicaLease) checkConnected(ctx context.Context) error {
	l.mu.Lock()
	away := l.disconnected[l.replica]
	l.mu.Unlock()
	if !away {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(renewDeadline / 2):
	}
	return errors.New("no answer")
}

func (l *replicaLease) write(ctx context.Context, r resourcelock.LeaderElectionRecord, fresh func() bool) error {
	if err := l.checkConnected(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !fresh() {
		return apierrors.NewConflict(coordinationv1.Resource("leases"), leaseName, errors.New("it has changed"))
	}
	l.version++
	l.seen, l.lease = l.version, &r
	return nil
}

// RecordEvent implements resourcelock.Interface.
func (l *replicaLease) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *replicaLease) Identity() string { return l.replica }

// Describe implements resourcelock.Interface.
func (l *replicaLease) Describe() string { return leaseName }
