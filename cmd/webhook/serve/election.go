package serve

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease of the replica that settles for all.
const leaseName = "eventquota-settler"

// These are shorter than client-go's defaults: stored Events wait for their counts until a leader is followed, and a
// Lease that is lost because the API server was slow for some seconds costs next to nothing here. A leader may begin to
// miss its renewals a retryPeriod late, and must have stopped before another may lead, so leaseDuration is longer than
// the other two together.
const (
	leaseDuration = 5 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = time.Second
)

// leaderTerm settles until ctx ends, and then writes what is left. It must stop at once, without another write, when abandon
// is closed, as another replica may lead then.
type leaderTerm func(ctx context.Context, abandon <-chan struct{}) error

// newLease is the Lease in a namespace of an API server, for one candidate.
func newLease(config *rest.Config, namespace string) (resourcelock.Interface, error) {
	host, _ := os.Hostname() // of a pod its name
	// A restarted container in the same pod is another candidate.
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lease, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make a client for leader election: %w", err)
	}
	return lease, nil
}

// newElection settles for a term while this replica holds the Lease, and stands for election again when it has lost it. It
// fails when a term fails before it was to end.
func newElection(lease resourcelock.Interface, settle leaderTerm) task {
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := campaign(ctx, lease, settle); err != nil {
				return err
			}
		}
		return nil
	}
}

// campaign waits for the Lease and settles until it is lost or ctx ends. It never releases the Lease, which runs out by
// itself: client-go would also release one that is lost, before the settler can know.
func campaign(ctx context.Context, lease resourcelock.Interface, settle leaderTerm) error {
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          leaseName,
		Lock:          lease,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { leading <- held },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// The Lease is renewed until the settler has stopped, which is after ctx ends.
	candidacy, resign := context.WithCancel(context.WithoutCancel(ctx))
	var election sync.WaitGroup
	election.Go(func() { elector.Run(candidacy) })
	defer election.Wait()
	defer resign()
	select {
	case <-ctx.Done(): // it does not lead, or has not settled anything yet
		return nil
	case held := <-leading:
		log := logr.FromContextOrDiscard(ctx).WithValues("lease", lease.Describe(), "identity", lease.Identity())
		return lead(logr.NewContext(ctx, log), held, settle)
	}
}

// lead settles until ctx ends, with a drain, or until held does, without.
func lead(ctx, held context.Context, settle leaderTerm) error {
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Became the leader, settles for all replicas")
	settling, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(held, stop)
	err := settle(settling, held.Done())
	switch {
	case held.Err() != nil:
		log.Info("Lost the lease, has stopped settling")
		return nil
	case ctx.Err() == nil:
		return err
	case err != nil:
		// The store keeps it, so it is not lost.
		log.Info("Leaves counts to the next leader", "reason", err.Error())
	}
	return nil
}
