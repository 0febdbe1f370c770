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

// leaseName is the name of the Lease. The replica that holds it writes the pending counts of all replicas.
const leaseName = "eventquota-settler"

// Election timings. They are shorter than client-go's defaults, because pending counts wait until there is a new leader. It costs
// almost nothing here to lose the Lease while the API server is slow for some seconds. leaseDuration is longer than the other two
// together: a leader may notice up to a retryPeriod late that it cannot renew, and must stop before another replica leads.
const (
	leaseDuration = 5 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = time.Second
)

// leaderTerm writes pending counts until ctx ends, and then drains the rest. When abandon is closed, another replica may lead, so it
// must stop at once without another write.
type leaderTerm func(ctx context.Context, abandon <-chan struct{}) error

// newLease returns the Lease in a namespace, for one candidate.
func newLease(config *rest.Config, namespace string) (resourcelock.Interface, error) {
	host, _ := os.Hostname() // the name of the pod
	// The UID makes a restarted container of the same pod another candidate.
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lease, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make a client for leader election: %w", err)
	}
	return lease, nil
}

// newElection returns a task that runs term whenever this replica holds the Lease, until its context ends. It returns the error of a
// term that fails while the Lease is held.
func newElection(lease resourcelock.Interface, term leaderTerm) task {
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := campaign(ctx, lease, term); err != nil {
				return err
			}
		}
		return nil
	}
}

// campaign waits for the Lease, and then runs term until the Lease is lost or ctx ends. It never releases the Lease but lets it
// expire: client-go would also release a lost Lease, before the settler has stopped.
func campaign(ctx context.Context, lease resourcelock.Interface, term leaderTerm) error {
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
	// The Lease is renewed until the settler has stopped, some time after ctx ends.
	candidacy, resign := context.WithCancel(context.WithoutCancel(ctx))
	var election sync.WaitGroup
	election.Go(func() { elector.Run(candidacy) })
	defer election.Wait()
	defer resign()
	select {
	case <-ctx.Done(): // this replica does not lead, or has not written anything yet
		return nil
	case held := <-leading:
		log := logr.FromContextOrDiscard(ctx).WithValues("lease", lease.Describe(), "identity", lease.Identity())
		return lead(logr.NewContext(ctx, log), held, term)
	}
}

// lead runs term until ctx ends, with a drain, or until held ends, without one.
func lead(ctx, held context.Context, term leaderTerm) error {
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Became the leader, writing the pending counts of all replicas")
	leading, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(held, stop)
	err := term(leading, held.Done())
	switch {
	case held.Err() != nil:
		log.Info("Lost the Lease, stopped writing counts")
		return nil
	case ctx.Err() == nil:
		return err
	case err != nil:
		// They are not lost, unless this was an uninstall.
		log.Info("Stopped with counts still pending; they wait in Redis for the next leader", "reason", err.Error())
	}
	return nil
}
