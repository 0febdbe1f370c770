// Package replica runs the real webhook process against a cluster of the
// tests: built from this checkout, as the user and with the rights of its
// service account, called by the API server. A Set is several behind a Service.
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

// User is the user that the webhook settles as.
const User = "system:serviceaccount:eventquota-system:eventquota"

const (
	readyTimeout = 30 * time.Second
	// stopTimeout is longer than the process gives itself by its defaults.
	stopTimeout = 40 * time.Second
	// callTimeoutSeconds is how long the API server waits for a call, in seconds, and the webhook takes for a
	// decision: no test depends on how busy the machine is.
	callTimeoutSeconds = 10
)

// Replica is a running webhook process. Its methods are for one goroutine.
type Replica struct {
	// URL is where the API server calls it.
	URL string
	// MetricsURL is where it serves metrics to all, unless it was told to by flags of its
	// own: then by https, and to who may read them.
	MetricsURL string
	// ReadyURL is where it says whether it is ready.
	ReadyURL string

	ca      []byte
	cluster *cluster.Cluster
	process *exec.Cmd
	exited  chan struct{} // closed when the process has ended
	exitErr error         // how it ended; read once exited is closed
	logPath string        // path of its log
}

// CA has signed the replica's certificate, as PEM.
func (r *Replica) CA() []byte { return r.ca }

// Install makes the API server call the replica in both phases.
func (r *Replica) Install(ctx context.Context) error { return r.InstallFor(ctx, "") }

// InstallFor does so for the Events of one namespace; empty for all.
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

// Stop ends the process as Kubernetes does, by SIGTERM. It settles what it owes
// before it exits. An error carries its log.
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

// PeakMemory is the most memory that the replica has used, in bytes. It has stopped.
func (r *Replica) PeakMemory() int64 {
	used, _ := r.process.ProcessState.SysUsage().(*syscall.Rusage)
	return used.Maxrss << 10 // it is in KiB
}

// ProcessorTime is what the process has used so far, in steps of 10 ms.
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

// Kill ends the process at once, so that it loses what it owes, if it has not
// ended already.
func (r *Replica) Kill() {
	_ = r.process.Process.Kill() // fails only when it has ended
	<-r.exited
}

// Log is what the process has written so far.
func (r *Replica) Log() string {
	content, err := os.ReadFile(r.logPath)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(content))
}
