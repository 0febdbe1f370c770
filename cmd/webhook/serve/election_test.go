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

// drain is the time that each fake settler takes to drain.
const drain = 10 * time.Second

// TestElection checks which replica leads, and when, while replicas start, stop and lose their connection.
func TestElection(t *testing.T) {
	t.Parallel()
	// Another replica takes the Lease when it has not seen a renewal for leaseDuration. It may see the last renewal, and then take the
	// Lease, up to 2.2 retry periods late each, because client-go adds jitter.
	const takeover = leaseDuration + 2*2200*time.Millisecond
	for name, tt := range map[string]struct {
		steps func(e *election)
		want  []string
	}{
		"the next leads after the leader has drained; a follower stops at once": {
			func(e *election) {
				e.start("a")
				e.advance(time.Second)
				e.start("b")
				e.advance(time.Minute)
				e.stop("a")
				e.requireNext(drain+takeover, "b leads")
				e.start("c")
				e.advance(time.Second)
				e.stop("c")
				e.requireNext(0, "c ended")
				e.stop("b")
				e.advance(drain)
			},
			[]string{"a leads", "a drained", "a ended", "b leads", "c ended", "b drained", "b ended"},
		},
		"a disconnected leader stops before another leads, and may lead again later": {
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
				e.requireNext(drain+takeover, "a leads")
				e.stop("a")
				e.advance(drain)
			},
			[]string{"a leads", "a abandoned", "b leads", "b drained", "b ended", "a leads", "a drained", "a ended"},
		},
		"a leader gives up its drain when it loses the Lease": {
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
		"an incomplete drain is not an error": {
			func(e *election) {
				e.leaveUndrained = true
				e.start("a")
				e.advance(time.Second)
				e.stop("a")
				e.requireNext(drain, "a ended")
			},
			[]string{"a leads", "a drained", "a ended"},
		},
		"a settler that fails ends its replica, and another leads": {
			func(e *election) {
				e.broken = true
				e.start("a")
				e.requireNext(0, "a failed")
				e.broken = false
				e.start("b")
				e.requireNext(takeover, "b leads")
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
				tt.steps(e)
				if got := e.copyJournal(); !slices.Equal(got, tt.want) {
					t.Errorf("got %q,\nwant %q", got, tt.want)
				}
			})
		})
	}
}

var errBroken = errors.New("broken")

// settle is a fake settler that writes to the journal and takes drain to drain.
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

// election is a Lease and the replicas that compete for it, within a synctest bubble.
type election struct {
	t *testing.T
	// broken makes new terms fail. leaveUndrained makes drains incomplete.
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
	run := newElection(&replicaLease{election: e, replica: replica}, func(ctx context.Context, abandon <-chan struct{}) error {
		return e.settle(ctx, replica, abandon)
	})
	go func() {
		switch err := run(ctx); {
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

// setDisconnected cuts the connection of a replica to the API server, or restores it.
func (e *election) setDisconnected(replica string, disconnected bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disconnected[replica] = disconnected
}

// advance lets time pass, and waits until all goroutines are blocked.
func (e *election) advance(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// requireNext advances by d, and checks that the last entry of the journal is want.
func (e *election) requireNext(d time.Duration, want string) {
	e.t.Helper()
	e.advance(d)
	if got := e.copyJournal(); len(got) == 0 || got[len(got)-1] != want {
		e.t.Errorf("got %q, want %q last after %s", got, want, d)
	}
}

func (e *election) record(entry string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.journal = append(e.journal, entry)
}

func (e *election) copyJournal() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.journal)
}

// replicaLease is the Lease from the view of one replica.
type replicaLease struct {
	*election
	replica string
	seen    int // the version last read or written
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

// checkConnected returns an error after a while if the replica is disconnected, as a client does.
func (l *replicaLease) checkConnected(ctx context.Context) error {
	l.mu.Lock()
	disconnected := l.disconnected[l.replica]
	l.mu.Unlock()
	if !disconnected {
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
