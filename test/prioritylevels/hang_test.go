package prioritylevels

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/flood"
	"github.com/eventquota/eventquota/test/replica"
)

// TestHangingWebhookLosesNoQuietEvents checks that a hanging webhook loses no Event of a quiet cluster. The load is that of 1,000 nodes, ten
// Events per second. Each webhook call then holds a seat of its priority level until the shipped timeout of one second.
func TestHangingWebhookLosesNoQuietEvents(t *testing.T) {
	var program string
	build := func(ctx context.Context) (err error) {
		program, err = replica.Build(ctx)
		return err
	}
	if !cluster.RunIsolated(t, build) {
		return
	}
	if err := build(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, cluster.Options{NoAudit: true, Services: true})
	set, err := replica.StartSet(t.Context(), c, program, 3, "--deadline=200ms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	if err := c.InstallPriorityLevels(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := set.InstallShipped(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkQuietEventsAreStored(t, c, "all replicas answer")
	hang := func(replicas ...int) {
		t.Helper()
		for _, i := range replicas {
			if err := set.Hang(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	hang(0)
	checkQuietEventsAreStored(t, c, "one of three replicas hangs")
	hang(1, 2)
	checkQuietEventsAreStored(t, c, "all replicas hang")
	for _, r := range set.Replicas {
		r.Kill()
		dropPackets(t, strings.TrimPrefix(r.URL, "https://"))
	}
	checkQuietEventsAreStored(t, c, "packets to all replicas are dropped")
}

// checkQuietEventsAreStored writes the Events of a quiet cluster and checks that each is stored at the first try.
func checkQuietEventsAreStored(t *testing.T, c *cluster.Cluster, state string) {
	t.Helper()
	nodes := make([]flood.User, 100)
	for i := range nodes {
		nodes[i] = flood.Node(i)
	}
	plans := map[string]flood.Plan{
		"kubelets":    {Namespace: quietNamespace, Users: nodes, Writers: 100, Events: 1, EventsPerSecond: 8, HighPriority: true},
		"controllers": {Namespace: quietNamespace, Users: []flood.User{flood.ServiceAccount(quietNamespace, "a"), flood.ServiceAccount(quietNamespace, "b")}, Writers: 8, Events: 3, EventsPerSecond: 2, HighPriority: true},
	}
	floods := map[string]*flood.Flood{}
	for writers, plan := range plans {
		var err error
		if floods[writers], err = plan.Start(t.Context(), c.Config); err != nil {
			t.Fatal(err)
		}
	}
	for writers, plan := range plans {
		got, err := floods[writers].Wait()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: Events of %s: p50 %s, slowest %s", state, writers, got.P50.Round(time.Millisecond), got.Max.Round(time.Millisecond))
		if want := plan.Writers * plan.Events; got.Answers[201] != want || got.Rejected > 0 || got.Lost > 0 {
			t.Errorf("%s: Events of %s: got %+v, want %d stored at the first try", state, writers, got, want)
		}
	}
}

// dropPackets makes the kernel drop the packets of new connections to an address that is not in use. It listens there, never accepts, and
// fills the queue of connections.
func dropPackets(t *testing.T, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	to := &unix.SockaddrInet4{Port: number, Addr: [4]byte(net.ParseIP(host).To4())}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, to); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		// Dialing times out once the queue is full.
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		t.Cleanup(func() { connection.Close() })
		if n == 16 {
			t.Fatalf("%d connections to %s were established, want the queue to fill before that", n, address)
		}
	}
}
