package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// redisObjects is how many sources and objects, or keys, calls are about in turn.
	redisObjects  = 1000
	redisReplicas = 3
	// redisPatience is how long a call may take beyond the time of its measurement.
	redisPatience = 10 * time.Second
)

// redisCallers are how many callers call at a time.
func redisCallers() []int { return []int{1, 32, 128} }

// redisBed is one Redis without persistence and its clients.
type redisBed struct {
	server   *redistest.Server
	plain    *redis.Client         // with the library's defaults
	replicas []*redisclient.Client // as the webhook makes them
	prefixes int                   // how many have been used
}

// redisCall is one call. It is given a number that no other call of a measurement has.
type redisCall func(ctx context.Context, i int) error

// redisContender is what is measured on Redis.
type redisContender struct {
	name string
	// start prepares a measurement.
	start func(ctx context.Context) (call redisCall, stop func(), err error)
}

// benchRedis measures every contender once in each round, for each number of callers, in an
// order that rotates; and then, once, what Redis needs for many sources and objects. A call that
// fails, or decides otherwise than it should, fails it all.
func benchRedis(ctx context.Context, o options) (rounds []figures, err error) {
	b, err := newRedisBed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all, err := b.contenders(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all { // connects
		if _, err := b.measure(ctx, c, redisCallers()[len(redisCallers())-1], 0); err != nil {
			return nil, err
		}
	}
	for round := range o.rounds {
		f := figures{}
		for _, callers := range redisCallers() {
			for i := range all {
				c := all[(round+i)%len(all)]
				if f[redisFigure(c.name, callers)], err = b.measure(ctx, c, callers, o.redisTime()); err != nil {
					return nil, err
				}
			}
			for _, c := range all[1:] {
				f.ratio(fmt.Sprintf("redis_%s_over_rate_%d", c.name, callers), redisFigure(c.name, callers), redisFigure(all[0].name, callers))
			}
			progress("round %d of %d: redis, %3d callers: %.0f decisions/s", round+1, o.rounds, callers, f[redisFigure("decide", callers)])
		}
		rounds = append(rounds, f)
	}
	f, err := b.fill(ctx, o.objects)
	return append(rounds, f), err
}

// measure is how many calls of a contender a second were answered. It starts with an empty Redis.
func (b *redisBed) measure(ctx context.Context, c redisContender, callers int, window time.Duration) (perSecond float64, err error) {
	if err := b.plain.FlushDB(ctx).Err(); err != nil {
		return 0, fmt.Errorf("empty redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, window+redisPatience)
	defer cancel()
	call, stop, err := c.start(ctx)
	if err != nil {
		return 0, fmt.Errorf("redis_%s: %w", c.name, err)
	}
	defer stop()
	if perSecond, err = timed(ctx, callers, window, call); err != nil {
		return 0, fmt.Errorf("redis_%s, %d callers: %w", c.name, callers, err)
	}
	return perSecond, nil
}

// newRedisBed starts Redis.
func newRedisBed(ctx context.Context) (_ *redisBed, err error) {
	b := &redisBed{}
	if b.server, err = redistest.New(ctx, redistest.Options{}); err != nil {
		return nil, err
	}
	b.plain = redis.NewClient(&redis.Options{Addr: b.server.Addr()})
	for range redisReplicas {
		o := redisclient.DefaultOptions()
		o.Addresses = []string{b.server.Addr()}
		o.Timeout = redisPatience
		client, err := redisclient.New(*o)
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.replicas = append(b.replicas, client)
	}
	return b, nil
}

func (b *redisBed) close() error {
	errs := []error{b.plain.Close()}
	for _, client := range b.replicas {
		errs = append(errs, client.Close())
	}
	return errors.Join(append(errs, b.server.Close())...)
}

// contenders are all that is measured, in the order of the table. The others are compared with the
// first.
func (b *redisBed) contenders(ctx context.Context) ([]redisContender, error) {
	decisions, err := b.decisions(ctx)
	return append([]redisContender{{"rate", b.rate}}, decisions...), err
}

// rate asks redis_rate about one key after the other.
func (b *redisBed) rate(context.Context) (redisCall, func(), error) {
	limiter := redis_rate.NewLimiter(b.plain)
	limit := redis_rate.PerSecond(100_000) // always allows, and yet keeps something
	keys := make([]string, redisObjects)
	for i := range keys {
		keys[i] = "pod-" + strconv.Itoa(i)
	}
	return func(ctx context.Context, i int) error {
		result, err := limiter.Allow(ctx, keys[i%redisObjects], limit)
		if err == nil && (result.Allowed != 1 || result.ResetAfter <= 0) {
			return fmt.Errorf("redis_rate allowed %d, with all tokens back in %s", result.Allowed, result.ResetAfter)
		}
		return err
	}, func() {}, nil
}

// redisFigure is the name of how many calls a second were answered.
func redisFigure(name string, callers int) string {
	return fmt.Sprintf("redis_%s_%d_per_s", name, callers)
}
