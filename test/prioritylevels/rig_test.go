package prioritylevels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
)

const (
	// shippedSeats is the number of seats of eventLevel.
	shippedSeats = 12
	// fewSeatsPatch gives the level a few seats and no queues. It then rejects a request at once if no seat is free, as it would with full
	// queues. With queues that have space, it would reject the request after 15 s.
	fewSeatsPatch = `{"spec":{"limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject","queuing":null}}}}`
	// manySeatsPatch gives the level more seats than shipped, and a queue for all requests of a test. It then rejects no request.
	manySeatsPatch = `{"spec":{"limited":{"nominalConcurrencyShares":100,"limitResponse":{"type":"Queue","queuing":{"queues":1,"handSize":1,"queueLengthLimit":50000}}}}}`
	// waitTimeout is the time after which eventually and poll fail the test.
	waitTimeout = 2 * time.Minute
)

// smallLevelCluster is a cluster whose priority level for Event writes can be filled.
type smallLevelCluster struct {
	*cluster.Cluster

	client kubernetes.Interface // client of the administrator
	holder *http.Client         // client of an account that occupies seats
}

// newSmallLevel starts a cluster with the shipped priority levels.
func newSmallLevel(t *testing.T) *smallLevelCluster {
	t.Helper()
	// A request occupies a seat for at most the request timeout, which is one minute by default.
	c := &smallLevelCluster{Cluster: newCluster(t, cluster.Options{APIServerFlags: map[string]string{"request-timeout": "10m"}})}
	var err error
	if c.client, err = kubernetes.NewForConfig(c.Config); err != nil {
		t.Fatal(err)
	}
	if err := c.InstallPriorityLevels(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, _, err := c.User("system:serviceaccount:"+stormNamespace+":holder", "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	if c.holder, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// whileFull makes the API server reject every Event write of ordinary accounts while during runs. One account occupies all seats with Events
// whose bodies do not end. Afterwards, the level rejects no request.
func (c *smallLevelCluster) whileFull(t *testing.T, during func()) {
	t.Helper()
	seats := c.change(t, fewSeatsPatch, func(l cluster.PriorityLevel) bool { return l.Seats < shippedSeats }).Seats
	ctx, release := context.WithCancel(t.Context())
	var held sync.WaitGroup
	defer held.Wait()
	defer release()
	for range seats {
		held.Go(func() {
			if err := c.occupySeat(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("occupy a seat: %v", err)
			}
		})
	}
	c.eventually(t, "all seats are occupied", func(l cluster.PriorityLevel) bool { return l.SeatsInUse == seats })
	during()
	c.change(t, manySeatsPatch, func(l cluster.PriorityLevel) bool { return l.Seats > shippedSeats })
}

// occupySeat writes an Event whose body does not end until ctx is done. It always returns an error.
func (c *smallLevelCluster) occupySeat(ctx context.Context) error {
	body, end := io.Pipe()
	defer end.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.Config.Host, "/")+"/api/v1/namespaces/"+stormNamespace+"/events", body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.holder.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return fmt.Errorf("got status %s, want no answer", response.Status)
}

// change patches the level and returns its metrics once is returns true for them.
func (c *smallLevelCluster) change(t *testing.T, patch string, is func(cluster.PriorityLevel) bool) cluster.PriorityLevel {
	t.Helper()
	_, err := c.client.FlowcontrolV1().PriorityLevelConfigurations().Patch(t.Context(), eventLevel, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.eventually(t, "the level has changed", is)
}

// eventually waits until is returns true for the metrics of the level, and returns them.
func (c *smallLevelCluster) eventually(t *testing.T, what string, is func(cluster.PriorityLevel) bool) (l cluster.PriorityLevel) {
	t.Helper()
	poll(t, 200*time.Millisecond, what, func() bool {
		l = level(t, c.Cluster, eventLevel)
		return is(l)
	})
	return l
}

// auditLines counts the lines of the audit log about a user's Event writes, by status code.
func (c *smallLevelCluster) auditLines(t *testing.T, user string) map[int]int {
	t.Helper()
	audit, err := cluster.ReadAudit(c.AuditLog, cluster.AuditOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]int{}
	for request, times := range audit.Requests {
		if request.User == user {
			lines[request.Code] += int(times)
		}
	}
	return lines
}

// storedSerials returns the serial numbers of a recorder's stored Warnings.
func (c *smallLevelCluster) storedSerials(t *testing.T, r *recorder) map[int]bool {
	t.Helper()
	list, err := c.client.CoreV1().Events(quietNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serials := map[int]bool{}
	for i := range list.Items {
		number, found := strings.CutPrefix(list.Items[i].Message, r.message(""))
		if !found {
			continue
		}
		serial, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		serials[serial] = true
	}
	return serials
}

// eventually waits until is returns true. It fails the test after waitTimeout.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	poll(t, 20*time.Millisecond, what, is)
}

// poll calls is at an interval until it returns true. It fails the test after waitTimeout.
func poll(t *testing.T, interval time.Duration, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), interval, waitTimeout, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}
