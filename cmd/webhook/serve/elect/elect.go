// Package elect elects one replica to settle for all, by a Lease.
package elect

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease of the replica that settles for all.
const leaseName = "eventquota-settler"

// Runner writes what is pending until its context ends, and then what is left.
type Runner interface {
	Run(ctx context.Context) error
}

// Candidate settles while this replica holds the lease, and stands for election
// again when it has lost it. Make one with New and call Run once.
type Candidate struct {
	lock    resourcelock.Interface
	opts    Options
	settler func(abandon <-chan struct{}) Runner
}

var _ Runner = (*Candidate)(nil)

// New makes a candidate for the lease at an API server. settler makes the settler of one term,
// which must stop at once, without another write, when abandon is closed, as another may lead then.
func New(config *rest.Config, o Options, settler func(abandon <-chan struct{}) Runner) (*Candidate, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the candidate for leader election: %w", err)
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	// A request that hangs must leave time for another within the renew deadline.
	config.Timeout = o.RenewDeadline / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for leader election: %w", err)
	}
	return &Candidate{
		lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: o.PodNamespace(), Name: leaseName},
			Client:    client.CoordinationV1(),
			// A restarted container in the same pod is another candidate.
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		opts:    o,
		settler: settler,
	}, nil
}

// Run implements Runner. It fails when a settler fails that was not to stop.
func (c *Candidate) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.term(ctx); err != nil {
			return err
		}
	}
	return nil
}

// term waits for the lease and settles until it is lost or ctx ends.
func (c *Candidate) term(ctx context.Context) error {
	// The lease is renewed until the settler has stopped, which is after ctx ends.
	candidacy, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          leaseName,
		Lock:          c.lock,
		LeaseDuration: c.opts.LeaseDuration,
		RenewDeadline: c.opts.RenewDeadline,
		RetryPeriod:   c.opts.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { leading <- held },
			OnStoppedLeading: func() {},
		},
		// It would also release a lease that is lost, before it reports that.
		ReleaseOnCancel: false,
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(candidacy)
	}()
	lost := false
	select {
	case <-ctx.Done(): // it does not lead, or has not settled anything yet
	case held := <-leading:
		err = c.settle(ctx, held)
		lost = held.Err() != nil
	}
	resign()
	<-over
	if !lost {
		c.release(ctx)
	}
	return err
}

// settle settles until ctx ends, with a drain, or until held does, without.
func (c *Candidate) settle(ctx, held context.Context) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("lease", c.lock.Describe(), "identity", c.lock.Identity())
	log.Info("Leads, settles for all replicas")
	term, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(held, stop)
	err := c.settler(held.Done()).Run(term)
	switch {
	case held.Err() != nil:
		log.Info("Lost the lease, settles no more")
		return nil
	case ctx.Err() == nil:
		return err
	case err != nil:
		// The store keeps it, so it is not lost.
		log.Info("Leaves counts to the next leader", "reason", err.Error())
	}
	return nil
}

// release frees the lease for the next candidate, if this replica holds it. A lease
// that cannot be released runs out by itself.
func (c *Candidate) release(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithValues("lease", c.lock.Describe())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.RenewDeadline)
	defer cancel()
	// The last renewal may come in between, once.
	for range 2 {
		record, _, err := c.lock.Get(ctx)
		if err != nil || record.HolderIdentity != c.lock.Identity() {
			return
		}
		now := metav1.NewTime(time.Now())
		err = c.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, // the least that a Lease may have
			AcquireTime:          now,
			RenewTime:            now,
			LeaderTransitions:    record.LeaderTransitions,
		})
		if err == nil {
			log.Info("Released the lease")
			return
		}
	}
}
