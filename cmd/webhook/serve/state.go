package serve

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/release"
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

// isCalledTimeout bounds the requests for the webhook configurations when a leader stops, and isCalledPause is the time between two.
const isCalledTimeout, isCalledPause = 3 * time.Second, 250 * time.Millisecond

// state has the stores of a replica and the parts that work on them.
type state struct {
	// store decides about Events. audit evaluates rules in mode Audit.
	store, audit store.Store
	// id is the ID of store; empty if replicas share it.
	id string
	// maxWriteInterval is the maximum time between two writes of one stored Event.
	maxWriteInterval time.Duration
	// busiest counts decisions by namespace, source, object, reason and policy.
	busiest *busiest.Replicas
	// leadTask writes the pending counts of all replicas, and statuses, while this replica is their leader. It needs the background
	// functions, so it stops before them. Without a shared store it does nothing.
	leadTask task
	// background functions run while the store decides. They stop before settleTask does, which also writes the counts they leave.
	background []func(context.Context)
	// settleTask writes the pending counts of this replica until its context ends, and then drains.
	settleTask task
	// close closes the connections to a shared store. All other parts must have stopped.
	close func()
	// undelivered adds the number of dropped Events that the sink lost to their notice.
	undelivered sink.ReportFunc
	// peek reads the state of store.
	peek explain.Store
}

// newState returns state in memory or, if Redis is configured, in Redis.
func (s *server) newState() (*state, error) {
	own := memory.New(memory.Options{Bytes: s.opts.StoreMemory.Value()})
	if s.opts.usesRedis() {
		return s.newRedisState(own)
	}
	all := busiest.NewReplicas(nil, "", s.log)
	local := s.settlerTask("memory", own, settler.Options{StoreID: own.ID(), DrainTimeout: s.opts.settleDrain}, all)
	return &state{
		store:            s.metrics.Store.Observe("memory", own),
		audit:            memory.New(memory.Options{Bytes: memory.AuditBytes, NoSettler: true}),
		id:               own.ID(),
		close:            func() {},
		maxWriteInterval: time.Minute,
		busiest:          all,
		leadTask:         func(ctx context.Context) error { <-ctx.Done(); return nil },
		settleTask:       runAll(local, s.statusTask(all), s.releaseTask()),
		undelivered:      own.ReportSinkLoss,
		peek:             explain.Store{Name: "memory", Peeker: own, Now: time.Now},
	}, nil
}

// newRedisState returns state in Redis. Decisions that this replica cannot report to Redis go to own, and this replica writes their
// counts. One replica is elected to write the counts in Redis and the statuses of policies.
func (s *server) newRedisState(own *memory.Store) (*state, error) {
	logging.Disable() // calls return all errors that matter
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
	decider := fallback.New(s.metrics.Store.Observe("redis", shared), shared, s.fallbackOptions(breaker))
	auditBreaker := redisclient.NewBreaker(client, redisclient.BreakerOptions{Deadline: s.opts.StoreDeadline})
	audit := redis.New(auditBreaker, redis.Options{
		Prefix: s.opts.RedisPrefix + "audit:", NoSettler: true, StepTimeout: s.opts.StoreDeadline, OnError: s.logStoreProblem,
	})
	auditOptions := fallback.Defaults()
	auditOptions.Deadline, auditOptions.Available = s.opts.StoreDeadline, auditBreaker.Closed
	auditDecider := fallback.New(audit, audit, auditOptions)
	all := busiest.NewReplicas(client, s.opts.RedisPrefix, s.log)
	// The leader drains first, and then each replica its own store, in the rest of the time. At least a third is left for it.
	shares := &drains{total: s.opts.settleDrain()}
	local := s.settlerTask("memory", own, settler.Options{StoreID: own.ID(), DrainTimeout: shares.last}, all)
	lease, err := newLease(s.clients.config, podNamespace(namespaceFile))
	if err != nil {
		return nil, err
	}
	term := func(ctx context.Context, abandon <-chan struct{}) error {
		options := settler.Options{
			TakenOver: s.isCalled, Available: breaker.Closed, Abandon: abandon, DrainTimeout: shares.first,
		}
		return runAll(s.settlerTask("redis", shared, options, all), s.statusTask(all), s.releaseTask())(ctx)
	}
	watchEviction := func(ctx context.Context) {
		redisclient.WatchEviction(ctx, client, s.metrics.Store.Evicting.Set)
	}
	probe := func(ctx context.Context) { breaker.Run(ctx, shared.Probe) }
	probeAudit := func(ctx context.Context) { auditBreaker.Run(ctx, audit.Probe) }
	return &state{
		store:            decider,
		audit:            auditDecider,
		maxWriteInterval: 5 * time.Minute, // pending counts in Redis survive this replica
		busiest:          all,
		close:            func() { _ = client.Close() },
		background:       []func(context.Context){watchEviction, shared.Run, probe, audit.Run, probeAudit, all.Run},
		leadTask:         runAll(newElection(lease, term), shares.begin),
		settleTask:       local,
		undelivered:      shared.ReportSinkLoss,
		peek:             explain.Store{Name: "redis", Peeker: shared},
	}, nil
}

// settlerTask returns a task that writes the pending counts in queue. Metrics call the store name, and counts gets the number of writes.
func (s *server) settlerTask(name string, queue store.Queue, o settler.Options, counts *busiest.Replicas) task {
	m := &s.metrics.Settler
	o.RequestsPerSecond, o.Tracer = s.opts.SettleRate, s.tracer()
	observe := m.ObserverFor(name)
	o.Observe = func(a settler.Attempt) {
		observe(a)
		if a.Result == store.Written.String() {
			counts.Counter.CountWrite()
		}
	}
	return runAll(settler.New(s.metrics.Store.ObserveQueue(name, queue), s.clients.typed.CoreV1(), o).Run,
		func(ctx context.Context) error { m.WatchPending(ctx, name, queue, s.opts.Redis.Timeout); return nil })
}

// statusTask returns a task that writes the statuses of policies and quotas.
func (s *server) statusTask(counts status.Counts) task {
	return status.New(s.policies, counts, s.opts.StatusInterval, s.clients.dynamic).Run
}

// releaseTask releases emergency brakes whose end has passed, for one term.
func (s *server) releaseTask() task {
	return release.New(s.brakes, s.clients.dynamic).Run
}

// isCalled reports whether the API server still calls the Service, as far as its webhook configurations can be read. Without them,
// eventquota is taken out or uninstalled, so no replica may follow that writes the counts in Redis.
func (s *server) isCalled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, isCalledTimeout)
	defer cancel()
	for {
		called, err := s.certs.IsCalled(ctx)
		switch {
		case called:
			return true
		case err == nil:
			s.log.Info("No webhook configuration calls eventquota, writing all pending counts")
			return false
		case ctx.Err() != nil, apierrors.IsForbidden(err):
			s.log.Info("Cannot read the webhook configurations, leaving pending counts to the next leader", "reason", err.Error())
			return true
		}
		<-time.After(isCalledPause)
	}
}

// breakerOptions returns options that log whether Redis is available, and set its metric.
func (s *server) breakerOptions() redisclient.BreakerOptions {
	return redisclient.BreakerOptions{Deadline: s.opts.StoreDeadline, OnChange: func(open bool, err error) {
		if open {
			s.metrics.Store.Unavailable.Set(1)
			s.log.Error(err, "Redis does not answer, falling back to onStoreFailure of each quota")
			return
		}
		s.metrics.Store.Unavailable.Set(0)
		s.log.Info("Redis answers again")
	}}
}

// logStoreProblem logs that content of Redis is invalid. Redis itself is available.
func (s *server) logStoreProblem(err error) {
	s.log.Error(err, "Cannot use a part of the state in Redis")
}

// fallbackOptions returns options that count and trace decisions without Redis.
func (s *server) fallbackOptions(breaker *redisclient.Breaker) fallback.Options {
	o := fallback.Defaults()
	o.Deadline, o.Available = s.opts.StoreDeadline, breaker.Closed
	o.OnFallback = func(ctx context.Context, mode store.FailureMode) {
		s.metrics.Store.WithoutStore.WithLabelValues(mode.String()).Inc()
		trace.SpanFromContext(ctx).SetAttributes(attribute.String("eventquota.fallback", mode.String()))
	}
	return o
}

// runBackground runs the background functions. It returns when ctx has ended and they have returned.
func (s *state) runBackground(ctx context.Context) {
	var running sync.WaitGroup
	for _, run := range s.background {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
	<-ctx.Done()
}

// drains shares a time between the drains of two settlers that stop one after the other.
type drains struct {
	total time.Duration
	began time.Time // the first drain
}

// begin is a task that notes when its context ends.
func (d *drains) begin(ctx context.Context) error {
	<-ctx.Done()
	d.began = time.Now()
	return nil
}

// first returns the time for the first drain.
func (d *drains) first() time.Duration { return d.total - d.total/3 }

// last returns the time for the second drain. The task begin must have ended.
func (d *drains) last() time.Duration { return max(d.total/3, d.total-time.Since(d.began)) }

// task runs until its context ends. It may then take some time to stop.
type task func(ctx context.Context) error

// runAll returns a task that runs tasks concurrently. If one fails, it stops the others and returns the error.
func runAll(tasks ...task) task {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range tasks {
			group.Go(func() error { return run(ctx) })
		}
		return group.Wait()
	}
}
