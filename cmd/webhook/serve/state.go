package serve

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/sink"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// state is the stores of a replica and the parts that work on them.
type state struct {
	// store decides; audit is for audited rules.
	store, audit store.Store
	// id is that of store, if it is not shared.
	id string
	// maxWriteInterval is the longest wait between two writes of what is stored.
	maxWriteInterval time.Duration
	// busiest counts what is decided, and whose writes.
	busiest *busiest.Replicas
	// background run as long as the store decides. What they leave pending is still settled.
	background []func(context.Context)
	// settleTask settles, and writes statuses, until its context ends and what is pending is written.
	settleTask task
	// close ends the connections to a shared store, once nobody uses it.
	close func()
	// undelivered notes what of the drops in a notice is not in the sink.
	undelivered sink.ReportFunc
	// peek is the store that can be looked into: the one that decides.
	peek explain.Store
}

// newState keeps all in memory or, where Redis is given, in Redis, and then in memory only what this
// replica could not report to that.
func (s *server) newState() (*state, error) {
	own := memory.New(memory.Options{Bytes: s.opts.StoreMemory.Value()})
	if s.opts.usesRedis() {
		return s.newRedisState(own)
	}
	all := busiest.NewReplicas(nil, "", s.log)
	local := s.settlerTask("memory", own, settler.Options{StoreID: own.ID()}, all)
	return &state{
		store:            s.metrics.Store.Observe("memory", own),
		audit:            memory.New(memory.Options{Bytes: memory.AuditBytes, NoSettler: true}),
		id:               own.ID(),
		close:            func() {},
		maxWriteInterval: time.Minute,
		busiest:          all,
		settleTask:       runAll(local, s.statusTask(all)),
		undelivered:      own.ReportSinkLoss,
		peek:             explain.Store{Name: "memory", Peeker: own, Now: time.Now},
	}, nil
}

// newRedisState keeps all in Redis. own takes what cannot be reported to it, and is settled by this replica. One replica is
// elected to settle for all, and to write the statuses of policies.
func (s *server) newRedisState(own *memory.Store) (*state, error) {
	logging.Disable() // calls return the errors that matter
	client, err := redisclient.New(*s.opts.Redis)
	if err != nil {
		return nil, err
	}
	breaker := redisclient.NewBreaker(client, s.breakerOptions())
	shared := redis.New(breaker, redis.Options{
		Prefix: s.opts.RedisPrefix,
		OnUnreported: func(now time.Time, namespace string, register store.Key, d *engine.Drops) {
			if own.ReportDrops(now, namespace, register, d) != nil {
				s.metrics.Store.BacklogLost.Add(float64(d.Total))
			}
		},
		OnDeferred:  s.metrics.Store.BacklogReported.Inc,
		OnBacklog:   func(n int) { s.metrics.Store.BacklogSize.Set(float64(n)) },
		OnError:     s.logStoreProblem,
		StepTimeout: s.opts.StoreDeadline,
	})
	decides := fallback.New(s.metrics.Store.Observe("redis", shared), shared, s.fallbackOptions(breaker))
	auditBreaker := redisclient.NewBreaker(client, redisclient.BreakerOptions{Deadline: s.opts.StoreDeadline})
	audit := redis.New(auditBreaker, redis.Options{
		Prefix: s.opts.RedisPrefix + "audit:", NoSettler: true, StepTimeout: s.opts.StoreDeadline, OnError: s.logStoreProblem,
	})
	quiet := fallback.Defaults()
	quiet.Deadline, quiet.Available = s.opts.StoreDeadline, auditBreaker.Closed
	audits := fallback.New(audit, audit, quiet)
	all := busiest.NewReplicas(client, s.opts.RedisPrefix, s.log)
	local := s.settlerTask("memory", own, settler.Options{StoreID: own.ID()}, all)
	lease, err := newLease(s.clients.config, podNamespace(namespaceFile))
	if err != nil {
		return nil, err
	}
	leads := func(ctx context.Context, abandon <-chan struct{}) error {
		settles := settler.Options{Shared: true, Available: breaker.Closed, Abandon: abandon}
		return runAll(s.settlerTask("redis", shared, settles, all), s.statusTask(all))(ctx)
	}
	watched := func(ctx context.Context) {
		redisclient.WatchEviction(ctx, client, s.metrics.Store.Evicting.Set)
	}
	probe := func(ctx context.Context) { breaker.Run(ctx, shared.Probe) }
	probeAudit := func(ctx context.Context) { auditBreaker.Run(ctx, audit.Probe) }
	return &state{
		store:            decides,
		audit:            audits,
		maxWriteInterval: 5 * time.Minute, // Redis keeps what is pending when this replica stops
		busiest:          all,
		close:            func() { _ = client.Close() },
		background:       []func(context.Context){watched, shared.Run, probe, audit.Run, probeAudit, all.Run},
		settleTask:       runAll(local, newElection(lease, leads)),
		undelivered:      shared.ReportSinkLoss,
		peek:             explain.Store{Name: "redis", Peeker: shared},
	}, nil
}

// settlerTask settles a store, with a name in metrics, for one term, and counts what it writes.
func (s *server) settlerTask(name string, q store.Queue, o settler.Options, counts *busiest.Replicas) task {
	m := &s.metrics.Settler
	o.RequestsPerSecond, o.DrainTimeout, o.Tracer = s.opts.SettleRate, s.opts.DrainTimeout-s.opts.sinkDrain(), s.tracer()
	observe := m.ObserverFor(name)
	o.Observe = func(t settler.Attempt) {
		observe(t)
		if t.Result == store.Written.String() {
			counts.Counter.CountWrite()
		}
	}
	return runAll(settler.New(s.metrics.Store.ObserveQueue(name, q), s.clients.typed.CoreV1(), o).Run,
		func(ctx context.Context) error { m.WatchPending(ctx, name, q, s.opts.Redis.Timeout); return nil })
}

// statusTask writes the statuses of policies and quotas, for one term.
func (s *server) statusTask(counts status.Counts) task {
	return status.New(s.policies, counts, s.opts.StatusInterval, s.clients.dynamic).Run
}

// breakerOptions log and count whether Redis is available.
func (s *server) breakerOptions() redisclient.BreakerOptions {
	return redisclient.BreakerOptions{Deadline: s.opts.StoreDeadline, OnChange: func(open bool, err error) {
		if open {
			s.metrics.Store.Unavailable.Set(1)
			s.log.Error(err, "Redis does not answer, each quota's onStoreFailure decides")
			return
		}
		s.metrics.Store.Unavailable.Set(0)
		s.log.Info("Redis answers again")
	}}
}

// logStoreProblem logs what is wrong in Redis, but not with it.
func (s *server) logStoreProblem(err error) {
	s.log.Error(err, "A part of the state in Redis cannot be used")
}

// fallbackOptions count and trace what is decided without Redis.
func (s *server) fallbackOptions(breaker *redisclient.Breaker) fallback.Options {
	f := fallback.Defaults()
	f.Deadline, f.Available = s.opts.StoreDeadline, breaker.Closed
	f.OnFallback = func(ctx context.Context, how store.FailureMode) {
		s.metrics.Store.WithoutStore.WithLabelValues(how.String()).Inc()
		trace.SpanFromContext(ctx).SetAttributes(attribute.String("eventquota.fallback", how.String()))
	}
	return f
}

// runBackground runs the keepers of the store until ctx ends and they are done.
func (s *state) runBackground(ctx context.Context) {
	var keepers sync.WaitGroup
	for _, keep := range s.background {
		keepers.Go(func() { keep(ctx) })
	}
	keepers.Wait()
	<-ctx.Done()
}

// task runs until its context ends and it is done.
type task func(ctx context.Context) error

// runAll runs several at the same time. If one fails, the others end.
func runAll(parts ...task) task {
	return func(ctx context.Context) error {
		all, ctx := errgroup.WithContext(ctx)
		for _, one := range parts {
			all.Go(func() error { return one(ctx) })
		}
		return all.Wait()
	}
}
