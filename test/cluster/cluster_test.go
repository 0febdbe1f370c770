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
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/eventtest"
)

// TestCluster checks properties whose loss no other test would show: the measurements, and that Stop leaves nothing
// behind.
func TestCluster(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := Start(ctx, Options{Log: os.Stderr, EventRateLimit: `
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits: [{type: SourceAndObject, qps: 1, burst: 50}]
`})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("metrics and audit log", c.checkMetrics)
	t.Run("calls of webhooks that do not answer are counted", c.checkWebhookCalls)
	t.Run("EventRateLimit limits Events", c.checkEventRateLimit)
	t.Run("kubectl has the cluster's version and uses no other cluster", func(t *testing.T) {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "of-another-cluster"))
		stdout, _, err := c.Kubectl(t.Context(), "", "version")
		for _, wanted := range []string{"Client Version: v" + c.Version + "\nKustomize Version: ", "\nServer Version: v" + c.Version + "\n"} {
			if err != nil || !strings.Contains(stdout, wanted) {
				t.Errorf("kubectl version wrote %q (%v), want %q", stdout, err, wanted)
			}
		}
		_, _, err = c.Kubectl(t.Context(), "", "get", "configmap", "missing")
		if err == nil || !strings.Contains(err.Error(), `configmaps "missing" not found`) {
			t.Errorf("kubectl get of a missing object: %v", err)
		}
	})

	// The cluster stops with its context, and an open watch must not delay that.
	watch, err := c.client.CoreV1().Events("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	cancel()
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, stopTimeout, true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(c.Dir)
			return errors.Is(err, fs.ErrNotExist), nil
		})
	if err := errors.Join(err, c.Stop()); err != nil {
		t.Errorf("the cluster did not stop, or left %s: %v", c.Dir, err)
	}
}

func (c *Cluster) checkEventRateLimit(t *testing.T) {
	for range 100 { // much faster than one a second
		event := eventtest.Core(metav1.NamespaceDefault, "")
		event.GenerateName = "limited-"
		_, err := c.client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{})
		if apierrors.IsTooManyRequests(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("no Event was refused, want some")
}

// parentVariable makes TestProgramsEndWithAKilledParent run as the killed parent process.
const parentVariable = "EVENTQUOTA_TEST_KILLED"

func TestProgramsEndWithAKilledParent(t *testing.T) {
	if os.Getenv(parentVariable) != "" {
		killSelf(t, ForTest(t, Options{Scheduler: true}))
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), parentVariable+"=yes")
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

// killSelf prints the location of its control plane and then kills its own process, as the kernel does when it runs
// out of memory.
func killSelf(t *testing.T, c *Cluster) {
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
