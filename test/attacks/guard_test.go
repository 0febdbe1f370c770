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

// guard watches a replica as a kubelet and a kernel do. It ends one that is not ready, or that uses more memory than the shipped
// Deployment requests: it lives for as long as the node has that to spare, and no longer than up to its limit.
type guard struct {
	replica *replica.Replica
	memory  replica.Memory
	failed  atomic.Pointer[error]
	end     func() // ends the watch
	all     sync.WaitGroup
}

const (
	// looksEvery is the time between two looks at the memory. The most that was used since the start is seen also between them.
	looksEvery = 20 * time.Millisecond
	// probesEvery is the time between two questions whether the replica is ready, and patience how long it has for an answer on a
	// machine that is busy.
	probesEvery, patience = 500 * time.Millisecond, 30 * time.Second
)

// newGuard watches until end, or until the test ends.
func newGuard(t *testing.T, r *replica.Replica) *guard {
	t.Helper()
	memory, err := replica.ShippedMemory()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g := &guard{replica: r, memory: memory}
	for every, look := range map[time.Duration]func(context.Context) error{looksEvery: g.fits, probesEvery: g.ready} {
		g.all.Go(func() { g.watch(ctx, every, look) })
	}
	g.end = func() {
		cancel()
		g.all.Wait()
	}
	t.Cleanup(g.end)
	return g
}

// err is what the guard has seen, or nil.
func (g *guard) err() error {
	if err := g.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// watch looks again and again until ctx ends or something is wrong. The replica has ended then.
func (g *guard) watch(ctx context.Context, every time.Duration, look func(context.Context) error) {
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

// fits fails when the replica has ended or has used more memory than it may.
func (g *guard) fits(context.Context) error {
	used, err := g.replica.UsedMemory()
	select {
	case <-g.replica.Ended():
		return fmt.Errorf("the replica has ended")
	default:
	}
	if err != nil {
		return err
	}
	if used > g.memory.Requested {
		return fmt.Errorf("the replica has used %d MiB of memory, want at most the %d MiB that its Deployment requests; the kernel ends it at %d MiB",
			used>>20, g.memory.Requested>>20, g.memory.Hard>>20)
	}
	return nil
}

// ready fails when the replica says that it is not, or nothing.
func (g *guard) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
