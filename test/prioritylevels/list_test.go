package prioritylevels

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/bystander"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// readers is the number of clients that list Events concurrently.
const readers = 32

var (
	listed  = flag.Int("listed", 2000, "number of Events in each LIST, a multiple of 20")
	measure = flag.Duration("measure", 0, "time for which TestEventListsAreQueued measures the p99 of another account without readers, with readers, and with the level; 0 for only the last, for two seconds")
)

// TestEventListsAreQueued checks the priority level for LISTs of Events: the level executes at most as many LISTs as its seats allow, and the
// others wait. Requests of another account must not fail meanwhile.
func TestEventListsAreQueued(t *testing.T) {
	c := newCluster(t, cluster.Options{NoAudit: true})
	err := c.Grant(t.Context(), "read-events", "system:authenticated",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}})
	if err != nil {
		t.Fatal(err)
	}
	storeEvents(t, c, *listed)
	b, err := bystander.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := c.User("system:serviceaccount:"+stormNamespace+":reader", "system:serviceaccounts", "system:serviceaccounts:"+stormNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if *measure > 0 {
		quiet := b.RunFor(t.Context(), *measure)
		t.Logf("p99 of the other account: %s without readers", quiet.Quantile(0.99))
		without, _ := whileListing(t, c, config, b, *measure)
		t.Logf("%s while %d clients list %d Events", without.Quantile(0.99), readers, *listed)
	}
	if err := shipped.Apply(t.Context(), c.Config, listLevelObjects(t)); err != nil {
		t.Fatal(err)
	}
	waitForListLevel(t, c, config)
	served, most := whileListing(t, c, config, b, max(*measure, 2*time.Second))
	t.Logf("p99 of the other account: %s with the level", served.Quantile(0.99))
	if most.inLevel == 0 || most.inLevel > most.seats || most.queued == 0 {
		t.Errorf("%d of %d seats were in use and %d LISTs waited, want some in use, none above the limit and some waiting", most.inLevel, most.seats, most.queued)
	}
	if served.Failed > 0 {
		t.Errorf("%d of %d requests of the other account failed, want none: %v", served.Failed, served.Requests, served.Err)
	}
}

// storeEvents stores n Events.
func storeEvents(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	const clients = 20
	plan := flood.Plan{Namespace: quietNamespace, Users: []flood.User{flood.ServiceAccount(quietNamespace, "writer")}, Writers: clients, Events: n / clients}
	writers, err := plan.Start(t.Context(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := writers.Wait(); err != nil || result.Answers[201] != n {
		t.Fatalf("got %+v (error %v), want %d Events stored", result, err, n)
	}
}

// listLevelObjects returns the FlowSchema and the priority level of the shipped component.
func listLevelObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := shipped.Objects("overlays/single-replica", "components/priority-level-events-list")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group != flowcontrolv1.GroupName || o.GetName() != listLevel
	})
}

// waitForListLevel waits until the API server uses the level for LISTs of Events.
func waitForListLevel(t *testing.T, c *cluster.Cluster, config *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	poll(t, 50*time.Millisecond, "LISTs of Events use the level", func() bool {
		if _, err := client.CoreV1().Events(quietNamespace).List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		return level(t, c, listLevel).Dispatched > 0
	})
}

// whileListing measures the bystander's requests for at least d while readers list all Events. It also returns the maximum values of the
// level meanwhile. Each reader completes at least one LIST.
func whileListing(t *testing.T, c *cluster.Cluster, config *rest.Config, b *bystander.Bystander, d time.Duration) (bystander.Result, maxSeen) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var reading errgroup.Group
	for range readers {
		reading.Go(func() error {
			for first := true; first || !done.Load(); first = false {
				if err := list(t.Context(), client); err != nil {
					return err
				}
			}
			return nil
		})
	}
	stop := watchLevel(t, c, listLevel)
	served := b.RunFor(t.Context(), d)
	seen := stop()
	done.Store(true)
	if err := reading.Wait(); err != nil {
		t.Fatal(err)
	}
	return served, seen
}

// list reads all Events in a single page, without decoding them.
func list(ctx context.Context, client kubernetes.Interface) error {
	content, err := client.CoreV1().RESTClient().Get().Resource("events").Namespace(quietNamespace).SetHeader("Accept", "application/vnd.kubernetes.protobuf").Stream(ctx)
	if err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	n, err := io.Copy(io.Discard, content)
	if err = errors.Join(err, content.Close()); err == nil && n < 100*int64(*listed) {
		err = fmt.Errorf("list Events: got %d bytes, want at least 100 for each of %d Events", n, *listed)
	}
	return err
}
