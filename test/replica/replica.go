// Package replica runs the real webhook process, built from this checkout, against a test
// cluster. The process has the user and rights of its service account, and the API server
// calls it. A Set is several replicas behind a Service.
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

// User is the user that the webhook writes counts and notices as.
const User = "system:serviceaccount:eventquota-system:eventquota"

const (
	readyTimeout = 30 * time.Second
	// stopTimeout is longer than the process gives itself by its defaults.
	stopTimeout = 40 * time.Second
	// callTimeoutSeconds is the API server's timeout for a call, and the webhook's for a decision. It is so long that no
	// test depends on how busy the machine is.
	callTimeoutSeconds = 10
)

// Replica is a running webhook process. Its methods are not safe for concurrent use.
type Replica struct {
	// URL is the address that the API server calls.
	URL string
	// MetricsURL serves metrics by http to everyone. If the test sets the flags for metrics itself, it serves them by https,
	// and only to clients that have the right to read them.
	MetricsURL string
	// ReadyURL is its readiness probe.
	ReadyURL string

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

// InstallFor does so for the Events of one namespace; empty means all.
func (r *Replica) InstallFor(ctx context.Context, namespace string) error {
	return r.cluster.InstallWebhooks(ctx, cluster.Webhooks{
		URL: r.URL, CABundle: r.ca, ExemptUser: User, Mutating: true, Validating: true, Namespace: namespace, TimeoutSeconds: callTimeoutSeconds,
	})
}

// InstallShipped is Install with the timeout that is shipped: a call that takes longer fails, and its Event is stored undecided.
func (r *Replica) InstallShipped(ctx context.Context) error {
	return r.cluster.InstallWebhooks(ctx, cluster.Webhooks{
		URL: r.URL, CABundle: r.ca, ExemptUser: User, Mutating: true, Validating: true,
	})
}

// Stop ends the process as Kubernetes does, by SIGTERM. The webhook writes pending counts
// before it exits. An error includes its log.
func (r *Replica) Stop() error {
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the webhook: %w", err)
	}
	select {
	case <-r.exited:
	case <-time.After(stopTimeout):
		r.Kill()
		return fmt.Errorf("webhook still runs %s after SIGTERM\n%s", stopTimeout, r.Log())
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

// Kill kills the process, which then loses its pending writes. It does nothing if the
// process has ended already.
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
