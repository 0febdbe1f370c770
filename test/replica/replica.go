// Package replica runs the real webhook process against a cluster of the
// tests: built from this checkout, as the user and with the rights of its
// service account, called by the API server.
package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/test/cluster"
)

// User is the user that the webhook settles as.
const User = "system:serviceaccount:eventquota-system:eventquota"

const (
	readyWithin = 30 * time.Second
	// stopWithin is longer than the process gives itself by its defaults.
	stopWithin = 40 * time.Second
)

// Replica is a running webhook process. Its methods are for one goroutine.
type Replica struct {
	// URL is where the API server calls it.
	URL string
	// MetricsURL is where it serves metrics.
	MetricsURL string

	ca      []byte
	cluster *cluster.Cluster
	process *exec.Cmd
	exited  chan struct{} // closed when the process has ended
	result  error         // how it ended; read once exited is closed
	output  string        // path of its log
}

// Start starts the webhook program at path with the flags of serve given, and
// waits until it is ready. The API server does not call it yet: see Install.
// The process ends on Stop or Kill, or when this process dies.
func Start(ctx context.Context, c *cluster.Cluster, path string, flags ...string) (*Replica, error) {
	kubeconfig, err := settlerKubeconfig(ctx, c)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "replica-")
	if err != nil {
		return nil, fmt.Errorf("make the replica's directory: %w", err)
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	ca, err := certs.SelfSigned(dir, []string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"serve", "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(ports[0]), "--cert-dir=" + dir,
		"--health-address=127.0.0.1:" + strconv.Itoa(ports[1]),
		"--metrics-address=127.0.0.1:" + strconv.Itoa(ports[2]),
		"--kubeconfig=" + kubeconfig, "--shutdown-delay=500ms",
	}, flags...)
	r := &Replica{
		URL:        fmt.Sprintf("https://127.0.0.1:%d", ports[0]),
		MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[2]),
		ca:         ca,
		cluster:    c,
		process:    exec.Command(path, args...),
		exited:     make(chan struct{}),
		output:     filepath.Join(dir, "log"),
	}
	if err := r.start(); err != nil {
		return nil, fmt.Errorf("start the webhook: %w", err)
	}
	if err := r.waitUntilReady(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// start starts the process and waits for its end beside. It does both on one
// thread, whose end would be taken for the parent's.
func (r *Replica) start() error {
	log, err := os.Create(r.output)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	r.process.Stdout, r.process.Stderr = log, log
	detach(r.process)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.process.Start()
		started <- err
		if err == nil {
			r.result = r.process.Wait()
			close(r.exited)
		}
	}()
	return <-started
}

// Install makes the API server call the replica in both phases.
func (r *Replica) Install(ctx context.Context) error {
	return r.cluster.InstallWebhooks(ctx, cluster.Webhooks{
		URL: r.URL, CABundle: r.ca, ExemptUser: User, Mutating: true, Validating: true,
	})
}

// Stop ends the process as Kubernetes does, by SIGTERM. It settles what it owes
// before it exits. An error carries its log.
func (r *Replica) Stop() error {
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the webhook: %w", err)
	}
	select {
	case <-r.exited:
	case <-time.After(stopWithin):
		r.Kill()
		return fmt.Errorf("webhook still runs %s after SIGTERM\n%s", stopWithin, r.Log())
	}
	if r.result != nil {
		return fmt.Errorf("webhook: %w\n%s", r.result, r.Log())
	}
	return nil
}

// Kill ends the process at once, so that it loses what it owes, if it has not
// ended already.
func (r *Replica) Kill() {
	_ = r.process.Process.Kill() // fails only when it has ended
	<-r.exited
}

// Log is what the process has written so far.
func (r *Replica) Log() string {
	content, err := os.ReadFile(r.output)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(content))
}

func (r *Replica) waitUntilReady(ctx context.Context, url string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyWithin, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.exited:
			return false, errors.New("it has ended")
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not listening yet
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for the webhook to be ready: %w\n%s", err, r.Log())
	}
	return nil
}

// freePorts finds TCP ports on loopback that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
