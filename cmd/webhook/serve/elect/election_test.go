package elect

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

// election is a lease, and replicas that stand for it, within a synctest bubble.
type election struct {
	t     *testing.T
	drain time.Duration // how long each settler has to drain
	// What settlers do from now on: fail by themselves, or leave something.
	broken, undrained bool

	mu      sync.Mutex
	journal []string
	lease   *resourcelock.LeaderElectionRecord
	version int
	stops   map[string]context.CancelFunc
	away    map[string]bool
}

func newElection(t *testing.T, drain time.Duration) *election {
	t.Helper()
	return &election{t: t, drain: drain, stops: map[string]context.CancelFunc{}, away: map[string]bool{}}
}

// start starts a replica.
func (e *election) start(replica string) {
	ctx, stop := context.WithCancel(e.t.Context())
	e.stops[replica] = stop
	candidate := &Candidate{
		lock: &leaseOf{election: e, replica: replica},
		settle: func(ctx context.Context, abandon <-chan struct{}) error {
			return e.settle(ctx, replica, abandon)
		},
	}
	go func() {
		switch err := candidate.Run(ctx); {
		case err == nil:
			e.tell(replica + " ended")
		case errors.Is(err, errBroken):
			e.tell(replica + " failed")
		default:
			e.tell(replica + ": " + err.Error())
		}
	}()
}

// stop asks a replica to stop.
func (e *election) stop(replica string) { e.stops[replica]() }

// cut takes the way to the API server from a replica, or gives it back.
func (e *election) cut(replica string, off bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away[replica] = off
}

// pass lets time pass and everybody do what it brings.
func (e *election) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// within holds that something is the last that happened, after d at most.
func (e *election) within(d time.Duration, what string) {
	e.t.Helper()
	e.pass(d)
	if told := e.told(); len(told) == 0 || told[len(told)-1] != what {
		e.t.Errorf("got %q, want %q last after %s", told, what, d)
	}
}

func (e *election) tell(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.journal = append(e.journal, what)
}

func (e *election) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.journal)
}

// leaseOf is the lease as one replica sees it.
type leaseOf struct {
	*election
	replica string
	seen    int // version that was read or written last
}

var _ resourcelock.Interface = (*leaseOf)(nil)

// Get implements resourcelock.Interface.
func (l *leaseOf) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.reach(ctx); err != nil {
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
func (l *leaseOf) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, func() bool { return l.lease == nil })
}

// Update implements resourcelock.Interface.
func (l *leaseOf) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, func() bool { return l.seen == l.version })
}

// reach fails as a client does that gets no answer.
func (l *leaseOf) reach(ctx context.Context) error {
	l.mu.Lock()
	away := l.away[l.replica]
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

func (l *leaseOf) write(ctx context.Context, r resourcelock.LeaderElectionRecord, fresh func() bool) error {
	if err := l.reach(ctx); err != nil {
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
func (l *leaseOf) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *leaseOf) Identity() string { return l.replica }

// Describe implements resourcelock.Interface.
func (l *leaseOf) Describe() string { return leaseName }
