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

// watchdog watches a replica as a kubelet and a kernel do. It ends one that is not ready, or that uses more memory than the shipped
// Deployment requests: it lives for as long as the node has that to spare, and no longer than up to its limit.
type watchdog struct {
	replica *replica.Replica
	memory  replica.Memory
	failed  atomic.Pointer[error]
	stop    func() // ends the watch
	running sync.WaitGroup
}

const (
	// memoryInterval is the time between two looks at the memory. The most that was used since the start is seen also between them.
	memoryInterval = 20 * time.Millisecond
	// probeInterval is the time between two questions whether the replica is ready, and patience how long it has for an answer on a
	// machine that is busy.
	probeInterval, probeTimeout = 500 * time.Millisecond, 30 * time.Second
)

// newWatchdog watches until end, or until the test ends.
func newWatchdog(t *testing.T, r *replica.Replica) *watchdog {
	t.Helper()
	memory, err := replica.ShippedMemory()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g := &watchdog{replica: r, memory: memory}
	for every, look := range map[time.Duration]func(context.Context) error{memoryInterval: g.checkMemory, probeInterval: g.checkReady} {
		g.running.Go(func() { g.watch(ctx, every, look) })
	}
	g.stop = func() {
		cancel()
		g.running.Wait()
	}
	t.Cleanup(g.stop)
	return g
}

// failure is what the guard has seen, or nil.
func (g *watchdog) failure() error {
	if err := g.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// watch looks again and again until ctx ends or something is wrong. The replica has ended then.
func (g *watchdog) watch(ctx context.Context, every time.Duration, look func(context.Context) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := look(ctx); err != nil && ctx.Err() == nil {
			g.failed.CompareAndSwap(nil, &err)
			g.replica.Kill()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// checkMemory fails when the replica has ended or has used more memory than it may.
func (g *watchdog) checkMemory(context.Context) error {
	used, err := g.replica.UsedMemory()
	select {
	case <-g.replica.Exited():
		return fmt.Errorf("the replica has ended")
	default:
	}
	if err != nil {
		return err
	}
	if used > g.memory.Requested {
		return fmt.Errorf("the replica has used %d MiB of memory, want at most the %d MiB that its Deployment requests; the kernel ends it at %d MiB",
			used>>20, g.memory.Requested>>20, g.memory.HardLimit>>20)
	}
	return nil
}

// checkReady fails when the replica says that it is not, or nothing.
func (g *watchdog) checkReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.replica.ReadyURL, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the replica does not say that it is ready: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the replica is not ready: %s", response.Status)
	}
	return nil
}
