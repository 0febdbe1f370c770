package serve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/metrics"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/admission/tracing"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// state is where a replica keeps what Event writes share, and who works on it.
type state struct {
	// store decides, and audit finds out what audited policies would do.
	store, audit store.Store
	// id names store, if it is this replica's alone.
	id string
	// busy counts what is decided, and whose writes.
	busy *busy
	// keepers run as long as the store decides. What they leave behind at their
	// end is still settled.
	keepers []func(context.Context)
	// settlers write what is pending.
	settlers []settling
	// peek is the store that can be looked into: the one that decides.
	peek explain.Store
}

// newState keeps all in memory or, where Redis is given, in Redis, and then in
// memory only what this replica could not report to that. What policies decide is
// in statuses, of all replicas that share a store by one of them.
func newState(o *options, config *rest.Config, statuses func(status.Counts) settling, m *metrics.Metrics, tr *tracing.Traces, log logr.Logger) (*state, error) {
	own, err := memory.New(memory.Options{Bytes: o.StoreMemory.Value()})
	if err != nil {
		return nil, fmt.Errorf("--store-memory: %w", err)
	}
	local, err := newSettling(o, config, settled{name: "memory", queue: own, storeID: own.ID()}, m, tr)
	if err != nil {
		return nil, err
	}
	if o.usesRedis() {
		return newSharedState(o, config, statuses, own, local, m, tr, log)
	}
	audit, err := memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
	if err != nil {
		return nil, err
	}
	busy := newBusy(nil, log)
	return &state{
		store: tr.Store("memory", false, m.Store.Observe("memory", own)), audit: tr.Store("memory", true, audit), id: own.ID(),
		busy:     busy,
		settlers: []settling{local, statuses(busy)},
		peek:     explain.Store{Name: "memory", Peeker: own, Now: time.Now},
	}, nil
}

// newSharedState keeps all in Redis. own takes what cannot be reported to it, and
// local settles that.
func newSharedState(o *options, config *rest.Config, statuses func(status.Counts) settling, own *memory.Store, local settling, m *metrics.Metrics, tr *tracing.Traces, log logr.Logger) (*state, error) {
	redisclient.LogTo(log)
	client, err := redisclient.New(*o.Redis)
	if err != nil {
		return nil, err
	}
	shared := redis.New(client, redis.Options{
		Prefix: o.RedisPrefix, Unreported: own,
		Reported: func(n int) { m.Store.Reported.Add(float64(n)) },
		Waiting:  func(n int) { m.Store.Waiting.Set(float64(n)) },
		Lost:     func(n int64) { m.Store.Lost.Add(float64(n)) },
	})
	decides, err := fallback.New(tr.Shared(m.Store.Observe("redis", shared)), shared, fallbackOptions(o, m, log))
	if err != nil {
		return nil, err
	}
	busy := newBusy(busiest.NewRedis(client, o.RedisPrefix), log)
	elected, err := newSettling(o, config, settled{
		name: "redis", queue: shared, available: decides.Available, statuses: func() settling { return statuses(busy) },
	}, m, tr)
	if err != nil {
		return nil, err
	}
	audit := redis.New(client, redis.Options{Prefix: o.RedisPrefix + "audit:", Unsettled: true})
	quiet := fallback.Defaults()
	quiet.Deadline, quiet.Decided = o.StoreDeadline, tracing.NoteFallback
	audits, err := fallback.New(audit, audit, quiet)
	if err != nil {
		return nil, err
	}
	check := func(ctx context.Context) {
		first, cancel := context.WithTimeout(ctx, o.Redis.DialTimeout+o.Redis.Timeout)
		defer cancel()
		if err := redisclient.Check(first, client); err != nil {
			log.Error(err, "Redis cannot be reached, each policy's onStoreFailure decides until it can")
		}
		watchEviction(ctx, client, m.Store.Evicting, log)
	}
	return &state{
		store: tr.Store("redis", false, decides), audit: tr.Store("redis", true, audits), busy: busy,
		keepers:  []func(context.Context){check, shared.Run, decides.Run, audit.Run, audits.Run, busy.run},
		settlers: []settling{local, elected},
		peek:     explain.Store{Name: "redis", Peeker: shared},
	}, nil
}

// watchEviction looks every minute whether Redis keeps what is pending when its memory is full.
func watchEviction(ctx context.Context, client *redisclient.Client, servers prometheus.Gauge, log logr.Logger) {
	last := ""
	say := func(now string, tell func()) {
		if now != last {
			tell()
		}
		last = now
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		evicting, err := redisclient.Evicting(ctx, client)
		switch {
		case goredis.HasErrorPrefix(err, "NOPERM"):
			say("unknown", func() { log.Info("Cannot see whether Redis evicts keys: its user needs +info", "error", err.Error()) })
		case err == nil:
			servers.Set(float64(len(evicting)))
			say(strings.Join(evicting, ", "), func() {
				if len(evicting) > 0 {
					log.Error(nil, "Redis may lose what is pending: set maxmemory-policy to noeviction", "servers", evicting)
				}
			})
		}
	}, time.Minute)
}

// fallbackOptions show in log and metrics whether Redis is available.
func fallbackOptions(o *options, m *metrics.Metrics, log logr.Logger) fallback.Options {
	f := fallback.Defaults()
	f.Deadline = o.StoreDeadline
	f.OnChange = func(open bool, err error) {
		if open {
			m.Store.Unavailable.Set(1)
			log.Error(err, "Redis does not answer, each policy's onStoreFailure decides")
			return
		}
		m.Store.Unavailable.Set(0)
		log.Info("Redis answers again")
	}
	m.Store.Breaker("closed")
	f.Breaker = m.Store.Breaker
	f.Decided = func(ctx context.Context, how store.Failure) {
		m.Store.WithoutStore.WithLabelValues(how.String()).Inc()
		tracing.NoteFallback(ctx, how)
	}
	return f
}

// keep runs what keeps the store until ctx ends and all is in order.
func (s *state) keep(ctx context.Context) {
	var keepers sync.WaitGroup
	for _, keep := range s.keepers {
		keepers.Go(func() { keep(ctx) })
	}
	keepers.Wait()
	<-ctx.Done()
}

// settle writes what falls due until ctx ends, and then what is pending.
func (s *state) settle(ctx context.Context) error {
	settlers, ctx := errgroup.WithContext(ctx)
	for _, one := range s.settlers {
		settlers.Go(func() error { return one.Run(ctx) })
	}
	return settlers.Wait()
}
