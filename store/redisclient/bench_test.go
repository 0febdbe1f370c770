package redisclient_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// bucket is a token bucket of the size of one that a store would run.
const bucket = `
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local full = tonumber(redis.call('GET', KEYS[1]) or 0)
if full < now then full = now end
local step = tonumber(ARGV[1])
if full + step - now > tonumber(ARGV[2]) then return {0, full} end
redis.call('SET', KEYS[1], full + step, 'PX', 60000)
return {1, full + step}`

// benchRound is how long each way of calling is measured in each round.
const benchRound = 300 * time.Millisecond

// BenchmarkCalls compares ways to call one server, side by side: pooled
// connections, one shared by AutoPipeline, the same in full duplex, and Call,
// which chooses by the number of callers. The ways alternate; what is reported
// are calls in a second, and their ratios to pooled.
func BenchmarkCalls(b *testing.B) {
	server := redistest.Start(b, redistest.Options{})
	script := redis.NewScript(bucket)
	if err := script.Load(b.Context(), server.Client()).Err(); err != nil {
		b.Fatal(err)
	}
	o := redisclient.DefaultOptions()
	o.Addresses = []string{server.Addr()}
	ways := waysToCall(b, o)
	for _, work := range []struct {
		name string
		cmd  func(ctx context.Context, i int) redis.Cmder
	}{
		{"ping", func(ctx context.Context, _ int) redis.Cmder { return redis.NewCmd(ctx, "PING") }},
		{"bucket", func(ctx context.Context, i int) redis.Cmder {
			return redis.NewCmd(ctx, "EVALSHA", script.Hash(), 1, fmt.Sprintf("key:%d", i%1000), 1000, 1000000)
		}},
	} {
		for _, callers := range []int{1, 2, 4, 32, 128} {
			b.Run(fmt.Sprintf("%s/callers=%d", work.name, callers), func(b *testing.B) {
				done := map[string]float64{}
				for b.Loop() {
					for way, process := range ways {
						done[way] += rate(b, callers, func(ctx context.Context, i int) error {
							return process(ctx, work.cmd(ctx, i))
						})
					}
				}
				b.ReportMetric(0, "ns/op")
				for way, sum := range done {
					b.ReportMetric(sum/float64(b.N), way+"/s")
					b.ReportMetric(sum/done["pooled"], way+"/pooled")
				}
			})
		}
	}
}

func waysToCall(b *testing.B, o *redisclient.Options) map[string]func(context.Context, redis.Cmder) error {
	b.Helper()
	ways := map[string]func(context.Context, redis.Cmder) error{
		"pooled": newClient(b, o).Process,
		"call": func(c *redisclient.Client) func(context.Context, redis.Cmder) error {
			return func(ctx context.Context, cmd redis.Cmder) error { return c.Call(ctx, cmd) }
		}(newClient(b, o)),
	}
	for name, duplex := range map[string]bool{"shared": false, "duplex": true} {
		options := redis.DefaultAutoPipelineOptions()
		options.FullDuplex = duplex
		pipe, err := newClient(b, o).AsyncAutoPipelineWithOptions(options)
		if err != nil {
			b.Fatal(err)
		}
		ways[name] = func(ctx context.Context, cmd redis.Cmder) error { return pipe.Submit(ctx, cmd).WaitContext(ctx) }
	}
	return ways
}

// rate is how many calls a second so many callers get answered.
func rate(b *testing.B, callers int, call func(ctx context.Context, i int) error) float64 {
	b.Helper()
	var calls atomic.Int64
	var failed atomic.Value
	var wg sync.WaitGroup
	start := time.Now()
	for c := range callers {
		wg.Go(func() {
			for i := c; time.Since(start) < benchRound; i++ {
				if err := call(b.Context(), i); err != nil {
					failed.Store(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	return float64(calls.Load()) / time.Since(start).Seconds()
}

func newClient(tb testing.TB, o *redisclient.Options) *redisclient.Client {
	tb.Helper()
	c, err := redisclient.New(*o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}
