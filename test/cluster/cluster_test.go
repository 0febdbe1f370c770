package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestStartSaysWhyItFailed(t *testing.T) {
	_, err := Start(t.Context(), Options{EventRateLimit: "kind: Nonsense"})
	if err == nil || !strings.Contains(err.Error(), "couldn't init admission plugin") {
		t.Errorf("got error %v, want the reason that the API server logged", err)
	}
}

func TestClusterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Start(ctx, Options{NoAudit: true})
	if err != nil {
		t.Fatal(err)
	}
	// An open watch must not hold up the end.
	watch, err := c.client.CoreV1().Events("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	cancel()
	c.waitUntilGone(t)
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// killedVariable makes TestProgramsEndWithAKilledParent the parent that is killed.
const killedVariable = "EVENTQUOTA_TEST_KILLED"

func TestProgramsEndWithAKilledParent(t *testing.T) {
	if os.Getenv(killedVariable) != "" {
		killItself(t, ForTest(t, Options{Scheduler: true}))
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), killedVariable+"=yes")
	parent.Stderr = os.Stderr
	output, err := parent.Output()
	if err == nil {
		t.Fatalf("the parent was not killed, and wrote %q", output)
	}
	left := strings.Fields(string(output))
	if len(left) != 3 {
		t.Fatalf("the parent wrote %q, want a directory and two addresses", output)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(left[0]); err != nil {
			t.Error(err)
		}
	})
	for _, address := range left[1:] {
		waitUntilRefused(t, address)
	}
}

// killItself says where its control plane is, and then ends as a process does that
// runs out of memory or out of time.
func killItself(t *testing.T, c *Cluster) {
	t.Helper()
	server, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(c.Dir, c.plane.Etcd.URL.Host, server.Host)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {}
}

func waitUntilRefused(t *testing.T, address string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, stopTimeout, true,
		func(ctx context.Context) (bool, error) {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				return false, connection.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED), nil
		})
	if err != nil {
		t.Errorf("%s still answers: %v", address, err)
	}
}

func (c *Cluster) waitUntilGone(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, stopTimeout, true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(c.Dir)
			return errors.Is(err, fs.ErrNotExist), nil
		})
	if err != nil {
		t.Errorf("%s is still there: %v", c.Dir, err)
	}
}
