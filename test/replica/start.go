package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/ports"
)

// Start starts the webhook program at path with the given flags of serve, and waits until it is ready. The API server
// calls it only after Install. The process ends on Stop or Kill, or when this process dies.
func Start(ctx context.Context, c *cluster.Cluster, path string, flags ...string) (*Replica, error) {
	dir, err := os.MkdirTemp(c.Dir, "replica-")
	if err != nil {
		return nil, fmt.Errorf("make the replica's directory: %w", err)
	}
	var taken [3]int
	for i := range taken {
		if taken[i], err = ports.Acquire(); err != nil {
			return nil, err
		}
	}
	ca, err := cluster.ServingCertificate(dir, "127.0.0.1", cluster.ServiceName+"."+cluster.ServiceNamespace+".svc")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := Kubeconfig(ctx, c)
	if err != nil {
		return nil, err
	}
	return startOn(ctx, c, endpoint{
		host: "127.0.0.1", port: taken[0], health: taken[1], metrics: taken[2],
		kubeconfig: kubeconfig, certDir: dir, ca: ca,
	}, path, flags)
}

// endpoint contains the addresses and the certificate of a replica.
type endpoint struct {
	host                  string // IP address
	port, health, metrics int
	kubeconfig            string
	certDir               string
	ca                    []byte // PEM, signed the certificate in certDir
}

// startOn is Start for a free endpoint.
func startOn(ctx context.Context, c *cluster.Cluster, p endpoint, path string, flags []string) (*Replica, error) {
	log, err := os.CreateTemp(c.Dir, "replica-*.log")
	if err != nil {
		return nil, fmt.Errorf("make the replica's log: %w", err)
	}
	defer log.Close() // the process has its own descriptor
	address := func(port int) string { return net.JoinHostPort(p.host, strconv.Itoa(port)) }
	args := append([]string{
		"serve", "--bind-address=" + p.host, "--port=" + strconv.Itoa(p.port), "--cert-dir=" + p.certDir,
		"--health-address=" + address(p.health), "--metrics-address=" + address(p.metrics), "--metrics-secure=false",
		"--kubeconfig=" + p.kubeconfig, "--shutdown-delay=500ms", fmt.Sprintf("--deadline=%ds", callTimeoutSeconds),
	}, flags...)
	r := &Replica{
		URL:        "https://" + address(p.port),
		MetricsURL: "http://" + address(p.metrics) + "/metrics",
		ReadyURL:   "http://" + address(p.health) + "/readyz",
		ca:         p.ca,
		cluster:    c,
		process:    exec.Command(path, args...),
		exited:     make(chan struct{}),
		logPath:    log.Name(),
	}
	// The webhook collects garbage as in the shipped Deployment, independent of the settings of the tests and the API
	// server.
	if r.Memory, err = shippedMemory(); err != nil {
		return nil, err
	}
	r.process.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, memoryLimitVariable+"=")
	}), memoryLimitVariable+"="+r.Memory.SoftLimit)
	r.process.Stdout, r.process.Stderr = log, log
	if err := r.start(); err != nil {
		return nil, fmt.Errorf("start the webhook: %w", err)
	}
	if err := r.waitUntilReady(ctx, r.ReadyURL); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// start starts the process and waits for its end in the background. It does both on one thread, because the kernel
// takes the end of that thread for the end of the parent.
func (r *Replica) start() error {
	detach(r.process)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.process.Start()
		started <- err
		if err == nil {
			r.exitErr = r.process.Wait()
			close(r.exited)
		}
	}()
	return <-started
}

func (r *Replica) waitUntilReady(ctx context.Context, url string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.exited:
			return false, errors.New("the process has ended")
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
