// Package replica runs the webhook process, built from this checkout, on a test cluster. The process has the user and
// rights of its service account, and the API server calls it. A Set is several replicas behind a Service.
package replica

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/eventquota/eventquota/test/cluster"
)

// User is the webhook's user, which writes counts and notices.
const User = "system:serviceaccount:eventquota-system:eventquota"

const (
	readyTimeout = 30 * time.Second
	// stopTimeout is longer than the process takes to stop with default flags.
	stopTimeout = 40 * time.Second
	// callTimeoutSeconds is the API server's timeout for a call, and the webhook's for a decision. It is so long that
	// tests do not depend on the load of the machine.
	callTimeoutSeconds = 10
)

// Replica is a running webhook process. Its methods are not safe for concurrent use.
type Replica struct {
	// URL is the address that the API server calls.
	URL string
	// MetricsURL serves metrics over HTTP to all clients. If the test sets the metrics flags itself, it serves them
	// over HTTPS, and only to clients with the right to read them.
	MetricsURL string
	// ReadyURL is the address of its readiness probe.
	ReadyURL string
	// Memory contains the memory limits of the replica, those of the shipped Deployment.
	Memory Memory

	ca      []byte
	cluster *cluster.Cluster
	process *exec.Cmd
	exited  chan struct{} // closed when the process has ended
	exitErr error         // how it ended; read once exited is closed
	logPath string        // path of its log
}

// CA returns the CA that signed the replica's certificate, as PEM.
func (r *Replica) CA() []byte { return r.ca }

// Install makes the API server call the replica in both phases.
func (r *Replica) Install(ctx context.Context) error { return r.InstallFor(ctx, "") }

// InstallFor is Install for the Events of one namespace. An empty namespace means all.
func (r *Replica) InstallFor(ctx context.Context, namespace string) error {
	return r.cluster.InstallWebhooks(ctx, cluster.Webhooks{
		URL: r.URL, CABundle: r.ca, ExemptUser: User, Mutating: true, Validating: true, Namespace: namespace, TimeoutSeconds: callTimeoutSeconds,
	})
}

// InstallShipped is Install with the shipped timeout: a call that takes longer fails open, and its Event is stored
// without a decision.
func (r *Replica) InstallShipped(ctx context.Context) error {
	return r.cluster.InstallWebhooks(ctx, cluster.Webhooks{
		URL: r.URL, CABundle: r.ca, ExemptUser: User, Mutating: true, Validating: true,
	})
}

// Stop ends the process by SIGTERM, like Kubernetes. The webhook writes pending counts before it exits. An error
// includes the process's log.
func (r *Replica) Stop() error {
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the webhook: %w", err)
	}
	select {
	case <-r.exited:
	case <-time.After(stopTimeout):
		r.Kill()
		return fmt.Errorf("the webhook still runs %s after SIGTERM\n%s", stopTimeout, r.Log())
	}
	if r.exitErr != nil {
		return fmt.Errorf("webhook: %w\n%s", r.exitErr, r.Log())
	}
	return nil
}

// PeakMemory returns the peak memory of a replica that has stopped, in bytes.
func (r *Replica) PeakMemory() int64 {
	used, _ := r.process.ProcessState.SysUsage().(*syscall.Rusage)
	return used.Maxrss << 10 // Maxrss is in KiB
}

// ProcessorTime returns the CPU time that the process has used, in steps of 10 ms.
func (r *Replica) ProcessorTime() (time.Duration, error) {
	process, err := procfs.NewProc(r.process.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("read the processor time of the webhook: %w", err)
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the processor time of the webhook: %w", err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}

// Kill kills the process, which then loses its pending writes. It does nothing if the process has ended.
func (r *Replica) Kill() {
	_ = r.process.Process.Kill() // fails only when it has ended
	<-r.exited
}

// Log returns the output of the process so far.
func (r *Replica) Log() string {
	content, err := os.ReadFile(r.logPath)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(content))
}
