package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// quietTimeout bounds the time in which clients still write after the end of a storm.
const quietTimeout = time.Minute

// stormGauge measures the progress of a storm.
type stormGauge struct {
	cluster   *cluster.Cluster
	client    kubernetes.Interface
	replica   *replica.Replica // nil without webhook
	audit     *cluster.Audit
	namespace string
	before    reading // counts before the storm
	writes    int64   // etcd writes of Events before the storm
}

// reading contains the measured counts at one time.
type reading struct {
	sent, stored, writes int64
	decided              map[string]int64 // by outcome
}

func newGauge(ctx context.Context, c *cluster.Cluster, client kubernetes.Interface, r *replica.Replica, namespace string) (*stormGauge, error) {
	audit, err := cluster.ReadAudit(c.AuditLog, cluster.AuditOptions{IgnoreUsers: []string{replica.User}})
	if err != nil {
		return nil, err
	}
	g := &stormGauge{cluster: c, client: client, replica: r, audit: audit, namespace: namespace, before: writtenTo(audit)}
	g.writes, err = c.EventWrites(ctx)
	return g, err
}

// readFast reads the audit log and the webhook's metrics. It sends nothing to the API server, which is busy with the
// storm: reading its metrics would delay other clients.
func (g *stormGauge) readFast(ctx context.Context) (now reading, err error) {
	if err := g.audit.ReadNew(); err != nil {
		return now, err
	}
	now = writtenTo(g.audit)
	now.stored -= g.before.stored
	now.writes -= g.before.writes
	now.sent = g.audit.PerNamespace()[g.namespace]
	if g.replica != nil {
		now.decided, err = g.replica.Decisions(ctx, "outcome")
	}
	return now, err
}

// writtenTo counts the requests that the API server has answered with success: created Events as stored, and all
// requests as writes.
func writtenTo(audit *cluster.Audit) (r reading) {
	for request, n := range audit.Requests {
		if request.Code/100 != 2 {
			continue
		}
		r.writes += n
		if request.Verb == "create" {
			r.stored += n
		}
	}
	return r
}

// read takes a reading from the API server itself once the storm is over.
func (g *stormGauge) read(ctx context.Context) (reading, error) {
	now, err := g.readFast(ctx)
	if err != nil {
		return now, err
	}
	if now.writes, err = g.cluster.EventWrites(ctx); err != nil {
		return now, err
	}
	now.writes -= g.writes
	events, err := g.client.CoreV1().Events(g.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return now, fmt.Errorf("count Events: %w", err)
	}
	now.stored = int64(len(events.Items))
	if events.RemainingItemCount != nil {
		now.stored += *events.RemainingItemCount
	}
	return now, nil
}

// watch prints a reading every second until done is closed.
func (g *stormGauge) watch(ctx context.Context, w io.Writer, done <-chan struct{}) error {
	table := tabwriter.NewWriter(w, 15, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "seconds\tsent\tadmitted\tmerged\tdropped\tEvents stored\tetcd writes\t")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for begun, over := time.Now(), false; !over; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			over = true
		case <-tick.C:
		}
		now, err := g.readFast(ctx)
		if err != nil {
			return err
		}
		d := func(outcome string) string {
			if g.replica == nil {
				return "-"
			}
			return fmt.Sprint(now.decided[outcome])
		}
		fmt.Fprintf(table, "%.0f\t%d\t%s\t%s\t%s\t%d\t%d\t\n", time.Since(begun).Seconds(),
			now.sent, d("admit"), d("merge"), d("drop"), now.stored, now.writes)
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// waitForQuiet waits until no client but the settler has written an Event for a second.
func (g *stormGauge) waitForQuiet(ctx context.Context) error {
	const step, steps = 100 * time.Millisecond, 10
	last, same := int64(-1), 0
	err := wait.PollUntilContextTimeout(ctx, step, quietTimeout, true, func(context.Context) (bool, error) {
		if err := g.audit.ReadNew(); err != nil {
			return false, err
		}
		var requests int64
		for request, n := range g.audit.Requests {
			if request.User != replica.User {
				requests += n
			}
		}
		if requests != last {
			last, same = requests, 0
		}
		same++
		return same > steps, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the end of the storm: %w", err)
	}
	return nil
}

// sumReported sums the occurrences that the stored Events of a namespace report. Notices, which report dropped
// Events, are included.
func sumReported(ctx context.Context, client kubernetes.Interface, namespace string) (n int64, err error) {
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list Events: %w", err)
	}
	for i := range events.Items {
		n += occurrences(&events.Items[i])
	}
	return n, nil
}

// occurrences returns the count that an Event reports.
func occurrences(e *corev1.Event) int64 {
	if e.Series != nil {
		return int64(e.Series.Count)
	}
	return int64(max(e.Count, 1))
}
