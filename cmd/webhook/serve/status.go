package serve

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/policy/watch"
)

// newStatuses gives what makes, for one term, what keeps the statuses of
// policies: from what is known of them and what replicas have counted.
func newStatuses(config *rest.Config, policies *watch.Cache, changed <-chan struct{}) (func(status.Counts) settling, error) {
	// It sets no rate of its own: the writer has one.
	client, err := dynamic.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "eventquota-status"))
	if err != nil {
		return nil, fmt.Errorf("write the status of policies: %w", err)
	}
	return func(counts status.Counts) settling {
		return status.New(policies, counts, client, status.Options{Wake: changed})
	}, nil
}

// together is several at the same time. One that fails ends the others.
type together []settling

var _ settling = together(nil)

// Run implements settling.
func (t together) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, one := range t {
		all.Go(func() error { return one.Run(ctx) })
	}
	return all.Wait()
}
