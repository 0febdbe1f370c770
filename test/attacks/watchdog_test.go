package attacks

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/replica"
)

// watchdog watches a replica as a kubelet and a kernel do. It kills the replica if it is not ready, or if it uses more memory than the
// shipped Deployment requests. Below the request, a replica survives even on a node without spare memory.
type watchdog struct {
	replica *replica.Replica
	failed  atomic.Pointer[error]
	stop    func() // stops watching; may be called more than once
	running sync.WaitGroup
}

const (
	// memoryInterval is the time between two checks of the memory. The kernel records the peak, so that no check misses it.
	memoryInterval = 20 * time.Millisecond
	// probeInterval is the time between two readiness probes, and probeTimeout the time for an answer. The timeout is long, because
	// the machine is busy.
	probeInterval, probeTimeout = 500 * time.Millisecond, 30 * time.Second
)

// newWatchdog watches a replica until stop is called or the test ends.
func newWatchdog(t *testing.T, r *replica.Replica) *watchdog {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watchdog{replica: r}
	for interval, check := range map[time.Duration]func(context.Context) error{memoryInterval: w.checkMemory, probeInterval: w.checkReady} {
		w.running.Go(func() { w.watch(ctx, interval, check) })
	}
	w.stop = func() {
		cancel()
		w.running.Wait()
	}
	t.Cleanup(w.stop)
	return w
}

// failure returns the first error that a check has returned, or nil.
func (w *watchdog) failure() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// watch runs a check repeatedly until ctx is done or the check fails. On a failure, it kills the replica.
func (w *watchdog) watch(ctx context.Context, interval time.Duration, check func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			w.failed.CompareAndSwap(nil, &err)
			w.replica.Kill()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// checkMemory returns an error if the replica has exited or has used more memory than its Deployment requests.
func (w *watchdog) checkMemory(context.Context) error {
	used, err := w.replica.UsedMemory()
	select {
	case <-w.replica.Exited():
		return fmt.Errorf("the replica has exited")
	default:
	}
	if err != nil {
		return err
	}
	if used > w.replica.Memory.Requested {
		return fmt.Errorf("the replica used %d MiB of memory, want at most the %d MiB that its Deployment requests (limit %d MiB)",
			used>>20, w.replica.Memory.Requested>>20, w.replica.Memory.HardLimit>>20)
	}
	return nil
}

// checkReady returns an error unless the replica reports within probeTimeout that it is ready.
func (w *watchdog) checkReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.replica.ReadyURL, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the readiness probe failed: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the replica is not ready: got status %s", response.Status)
	}
	return nil
}
