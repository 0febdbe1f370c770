package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	redisclient "github.com/eventquota/eventquota/store/connect"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// redisObjects is how many sources and objects, or keys, the calls are about.
const redisObjects = 1000

// redisCallers are how many callers call at a time.
func redisCallers() []int { return []int{1, 32, 128} }

// redisBed is one Redis without persistence and its clients.
type redisBed struct {
	server *redistest.Server
	plain  *redis.Client       // with the library's defaults
	client *redisclient.Client // as the webhook makes it
	pods   *pods
	keys   []string // of redis_rate
}

// redisContender is what is measured on Redis. Its figures are for one number
// of callers.
type redisContender struct {
	name    string
	measure func(ctx context.Context, callers int, window time.Duration) (figures, error)
}

// benchRedis measures every contender once in each round, for each number of
// callers, in an order that rotates; and then, once, what Redis needs for many
// sources and objects. A call that fails, or decides otherwise than it should,
// fails it all.
func benchRedis(ctx context.Context, o options) (rounds []figures, err error) {
	b, err := newRedisBed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all := b.contenders()
	for _, c := range all { // connects
		if _, err := c.measure(ctx, redisCallers()[len(redisCallers())-1], 0); err != nil {
			return nil, fmt.Errorf("redis_%s: %w", c.name, err)
		}
	}
	for round := range o.rounds {
		f := figures{}
		for _, callers := range redisCallers() {
			for i := range all {
				c := all[(round+i)%len(all)]
				if err := b.measure(ctx, c, callers, o.redisTime(), f); err != nil {
					return nil, err
				}
			}
			redisRatios(f, callers)
			progress("round %d of %d: redis, %3d callers: %.0f validated/s", round+1, o.rounds, callers, f[redisFigure("validate", callers)])
		}
		rounds = append(rounds, f)
	}
	f, err := fillRedis(ctx, o.objects)
	return append(rounds, f), err
}

// measure adds the figures of one contender to f. It starts with an empty Redis.
func (b *redisBed) measure(ctx context.Context, c redisContender, callers int, window time.Duration, f figures) error {
	if err := b.plain.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("empty redis: %w", err)
	}
	measured, err := c.measure(ctx, callers, window)
	if err != nil {
		return fmt.Errorf("redis_%s, %d callers: %w", c.name, callers, err)
	}
	maps.Copy(f, measured)
	return nil
}

// newRedisBed starts Redis.
func newRedisBed(ctx context.Context) (_ *redisBed, err error) {
	b := &redisBed{pods: &pods{}}
	if b.server, err = redistest.New(ctx, redistest.Options{}); err != nil {
		return nil, err
	}
	if b.client, err = newRedisClient(b.server); err != nil {
		return nil, errors.Join(err, b.server.Close())
	}
	b.plain = redis.NewClient(&redis.Options{Addr: b.server.Addr()})
	for i := range redisObjects {
		b.keys = append(b.keys, "pod-"+strconv.Itoa(i))
	}
	return b, nil
}

// newRedisClient makes a client as the webhook does, but for its patience: a
// call that is late must not fail a measurement.
func newRedisClient(server *redistest.Server) (*redisclient.Client, error) {
	o := redisclient.DefaultOptions()
	o.Addresses = []string{server.Addr()}
	o.Timeout = 10 * time.Second
	return redisclient.New(*o)
}

func (b *redisBed) close() error {
	return errors.Join(b.client.Close(), b.plain.Close(), b.server.Close())
}

// contenders are all that is measured, in the order of the table.
func (b *redisBed) contenders() []redisContender {
	limiter := redis_rate.NewLimiter(b.plain)
	limit := redis_rate.PerSecond(100_000) // always allows, and yet keeps something
	return []redisContender{
		{"ping", b.timed("ping", func(ctx context.Context, _ int) error { return b.plain.Ping(ctx).Err() })},
		{"rate", b.timed("rate", func(ctx context.Context, i int) error {
			result, err := limiter.Allow(ctx, b.keys[i%redisObjects], limit)
			switch {
			case err != nil:
				return err
			case result.Allowed != 1, result.ResetAfter <= 0:
				return fmt.Errorf("redis_rate allowed %d, with all tokens back in %s", result.Allowed, result.ResetAfter)
			}
			return nil
		})},
		{"validate and mutate", b.phases},
		{"refused", b.refused},
	}
}

// redisFigure is the name of how many calls a second were answered.
func redisFigure(name string, callers int) string {
	return fmt.Sprintf("redis_%s_%d_per_s", name, callers)
}

// redisRatios adds the ratios that matter to the figures of one round.
func redisRatios(f figures, callers int) {
	rate := redisFigure("rate", callers)
	f.ratio(fmt.Sprintf("redis_validate_over_rate_%d", callers), redisFigure("validate", callers), rate)
	f.ratio(fmt.Sprintf("redis_refused_over_rate_%d", callers), redisFigure("refused", callers), rate)
}
