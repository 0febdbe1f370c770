package redisclient_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/leaks"
)

const (
	// callTimeout is the deadline of a call. It is longer than a store's, as the machine may be busy.
	callTimeout = 250 * time.Millisecond
	// healWithin is how long calls may fail after the servers are healthy again.
	healWithin = 5 * time.Second
	// healed is how many calls in a row must succeed.
	healed = 50
)

// TestMain runs tests in parallel, as they mostly wait for servers. It checks that no goroutine is left after all tests.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	leaks.VerifyTestMain(m)
}

// write calls a script that writes.
func write(ctx context.Context, key string, c redisclient.Caller) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.Call(ctx, redis.NewCmd(ctx, "EVAL", "return redis.call('INCR', KEYS[1])", 1, key))
}

// awaitHealed writes until calls succeed, and logs how long that took and the errors.
func awaitHealed(t *testing.T, c redisclient.Caller, keys ...string) {
	t.Helper()
	start, answered, errs := time.Now(), 0, map[string]int{}
	for i := 0; answered < healed*len(keys); i++ {
		err := write(t.Context(), keys[i%len(keys)], c)
		if err == nil {
			answered++
			continue
		}
		answered = 0
		errs[fmt.Sprintf("%.100s", err)]++
		if time.Since(start) > healWithin {
			t.Fatalf("calls still fail after %s: %v", healWithin, errs)
		}
	}
	t.Logf("recovered %s after the servers; errors %v", time.Since(start).Round(time.Millisecond), errs)
}

// backgroundLoad is a client that is called continuously, and notes errors.
type backgroundLoad struct {
	*redisclient.Client

	mu   sync.Mutex
	seen map[string]bool // first words of errors
}

// startLoad calls from four goroutines until the test ends.
func startLoad(t *testing.T, o redisclient.Options, keys ...string) *backgroundLoad {
	t.Helper()
	l := &backgroundLoad{Client: newClient(t, &o), seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			pace := time.NewTicker(time.Millisecond) // leaves processor time to parallel tests
			defer pace.Stop()
			for ; ctx.Err() == nil; i++ {
				_ = write(ctx, keys[i%len(keys)], l) // Call notes the error
				<-pace.C
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	awaitHealed(t, l, keys...)
	return l
}

// Call implements redisclient.Caller.
func (l *backgroundLoad) Call(ctx context.Context, cmds ...redis.Cmder) error {
	err := l.Client.Call(ctx, cmds...)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		first, _, _ := strings.Cut(err.Error(), " ")
		l.seen[first] = true
	}
	return err
}

// awaitSeen waits until a call has failed with an error whose first word is prefix.
func (l *backgroundLoad) awaitSeen(t *testing.T, prefix string) {
	t.Helper()
	eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen[prefix]
	})
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("condition not met within 30s")
		}
	}
}

func newClient(t *testing.T, o *redisclient.Options) *redisclient.Client {
	t.Helper()
	c, err := redisclient.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func optionsFor(addrs ...string) redisclient.Options {
	o := *redisclient.DefaultOptions()
	o.Addresses = addrs
	return o
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
