package busiest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

// spy is a Redis that takes all, unless it is to fail.
type spy struct {
	mu   sync.Mutex
	fail error
	puts int
}

// Call implements redisclient.Caller.
func (s *spy) Call(ctx context.Context, cmds ...redis.Cmder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.fail == nil && cmds[0].Name() == "hset" {
		s.puts++
	}
	return s.fail
}

func (s *spy) set(fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func TestACounterTellsEveryTwoSecondsAndAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &spy{}
		r := busiest.NewReplicas(busiest.NewRedis(client, ""), logr.Discard())
		ctx, end := context.WithCancel(t.Context())
		began := time.Now()
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		<-time.After(time.Until(began.Add(7 * time.Second)))
		synctest.Wait()
		if client.puts != 3 {
			t.Errorf("written %d times in 7 s, want 3", client.puts)
		}
		r.Counter.Decided(write(1).decided(store.Drop))
		end()
		<-done
		if client.puts != 4 {
			t.Errorf("written %d times, want once more at the end", client.puts)
		}
	})
}

func TestAFailureToTellIsLoggedOnceAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		client := &spy{fail: context.DeadlineExceeded}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			busiest.NewReplicas(busiest.NewRedis(client, ""), log).Run(ctx)
			close(done)
		}()
		<-time.After(9 * time.Second)
		client.set(nil)
		<-time.After(9 * time.Second)
		end()
		<-done
		if len(lines) != 2 {
			t.Errorf("logged %q, want two lines", lines)
		}
	})
}
