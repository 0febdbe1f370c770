package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store/tally"
)

// newStatuses gives what makes, for one term, what keeps the statuses of
// policies: from what is known of them and from the counts in a book.
func newStatuses(config *rest.Config, policies *watch.Cache, changed <-chan struct{}) (func(tally.Book) settling, error) {
	// It sets no rate of its own: the writer has one.
	client, err := dynamic.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "eventquota-status"))
	if err != nil {
		return nil, fmt.Errorf("write the status of policies: %w", err)
	}
	return func(book tally.Book) settling {
		return status.New(policies, book, client, status.Options{Wake: changed})
	}, nil
}

// counted counts what policies decide, for their status and for metrics.
func counted(counts *tally.Counter, m *metrics) func(admission.Decided) {
	return func(d admission.Decided) {
		if d.Audited {
			m.audit(d.Policy, d.Verdict)
		} else {
			m.events.decided(&d)
		}
		// The built-in default has no status, and one that is in force counts what
		// it did, not what it would do if others were too.
		if d.Policy.Identity.UID == "" || d.Audited && d.Policy.Mode != policy.Audit {
			return
		}
		i := d.Policy.Identity
		var refused *tally.Subject
		if !d.Verdict.Admits() {
			refused = new(subjectOf(&d))
		}
		counts.Count(tally.ID{UID: string(i.UID), Generation: i.Generation}, d.Verdict, refused)
	}
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
