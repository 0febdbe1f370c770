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
	// eventLevel is the priority level of Event writes of ordinary accounts, and shippedSeats are its seats.
	eventLevel, shippedSeats = "events", 12
	// fewSeatsPatch leaves the level a few seats and no queues: a request above the seats is rejected at once, as one is that meets full
	// queues. With queues it would be rejected after 15 s.
	fewSeatsPatch = `{"spec":{"limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject","queuing":null}}}}`
	// manySeatsPatch has more seats than shipped, and a queue for all that a test writes: nothing is rejected.
	manySeatsPatch = `{"spec":{"limited":{"nominalConcurrencyShares":100,"limitResponse":{"type":"Queue","queuing":{"queues":1,"handSize":1,"queueLengthLimit":50000}}}}}`
	// waitTimeout is how long a test waits for what it cannot go on without.
	waitTimeout = 2 * time.Minute
)

// smallLevel is a cluster whose level for Event writes can be full.
type smallLevel struct {
	*cluster.Cluster

	client kubernetes.Interface // the administrator's
	holder *http.Client         // of an account that holds seats
}

func newSmallLevel(t *testing.T) *smallLevel {
	t.Helper()
	// A seat can be held as long as a request may last, 1m by default.
	n := &smallLevel{Cluster: newCluster(t, cluster.Options{APIServerFlags: map[string]string{"request-timeout": "10m"}})}
	var err error
	if n.client, err = kubernetes.NewForConfig(n.Config); err != nil {
		t.Fatal(err)
	}
	if err := n.InstallPriorityLevels(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, _, err := n.User("system:serviceaccount:"+stormNamespace+":holder", "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	if n.holder, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	return n
}

// whileFull has every Event write of ordinary accounts rejected while during runs: one account holds all seats, by Events whose bodies
// do not end. Then nothing is rejected any more.
func (n *smallLevel) whileFull(t *testing.T, during func()) {
	t.Helper()
	seats := n.change(t, fewSeatsPatch, func(l cluster.PriorityLevel) bool { return l.Seats < shippedSeats }).Seats
	ctx, release := context.WithCancel(t.Context())
	var held sync.WaitGroup
	defer held.Wait()
	defer release()
	for range seats {
		held.Go(func() {
			if err := n.occupySeat(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("hold a seat: %v", err)
			}
		})
	}
	n.eventually(t, "all seats are held", func(l cluster.PriorityLevel) bool { return l.SeatsInUse == seats })
	during()
	n.change(t, manySeatsPatch, func(l cluster.PriorityLevel) bool { return l.Seats > shippedSeats })
}

// occupySeat writes an Event whose body does not end, until ctx ends.
func (n *smallLevel) occupySeat(ctx context.Context) error {
	body, end := io.Pipe()
	defer end.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(n.Config.Host, "/")+"/api/v1/namespaces/"+stormNamespace+"/events", body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := n.holder.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return fmt.Errorf("answered %s", response.Status)
}

// change patches the level, and returns it once the API server has it as wanted.
func (n *smallLevel) change(t *testing.T, patch string, is func(cluster.PriorityLevel) bool) cluster.PriorityLevel {
	t.Helper()
	_, err := n.client.FlowcontrolV1().PriorityLevelConfigurations().Patch(t.Context(), eventLevel, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.eventually(t, "the level has changed", is)
}

// eventually waits until the level is as wanted, and returns it.
func (n *smallLevel) eventually(t *testing.T, what string, is func(cluster.PriorityLevel) bool) (l cluster.PriorityLevel) {
	t.Helper()
	poll(t, 200*time.Millisecond, what, func() bool {
		levels, err := n.PriorityLevels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l = levels[eventLevel]
		return is(l)
	})
	return l
}

// auditLines are the lines of the audit log about Event writes of a user, by the status of the answer.
func (n *smallLevel) auditLines(t *testing.T, user string) map[int]int {
	t.Helper()
	audit, err := cluster.ReadAudit(n.AuditLog, cluster.AuditOptions{})
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

// storedSerials are the serial numbers of the Warnings of a recorder that are stored.
func (n *smallLevel) storedSerials(t *testing.T, r *recorder) map[int]bool {
	t.Helper()
	list, err := n.client.CoreV1().Events(quietNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serials := map[int]bool{}
	for i := range list.Items {
		number, ours := strings.CutPrefix(list.Items[i].Message, r.message(""))
		if !ours {
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

// eventually waits for what must come to be.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	poll(t, 20*time.Millisecond, what, is)
}

// poll looks every so often whether something has come to be, and fails the test if it does not.
func poll(t *testing.T, every time.Duration, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), every, waitTimeout, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}
