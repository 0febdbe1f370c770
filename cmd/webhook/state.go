package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/busiest"
	"github.com/eventquota/eventquota/store/connect"
	"github.com/eventquota/eventquota/store/tally"
)

// state is where a replica keeps what Event writes share, and who works on it.
type state struct {
	// store decides, and audit finds out what audited policies would do.
	store, audit store.Store
	// counts are those of what policies decide.
	counts *tally.Counter
	// busy counts whose writes are decided.
	busy *busy
	// keepers run as long as the store decides. What they do at their end is
	// there to be settled.
	keepers []func(context.Context)
	// settlers settle what is owed.
	settlers []settling
	// peeks are what can be looked into, what decides first.
	peeks []peekStore
}

// newState keeps all in memory or, where Redis is given, in Redis, and then in
// memory only what is decided while Redis does not answer. What policies decide
// is told to statuses, of all replicas that share a store by one of them.
func newState(o *serveOptions, config *rest.Config, statuses func(tally.Book) settling, m *metrics, tr *traces, log logr.Logger) (*state, error) {
	memory, err := store.NewMemory(o.StoreMemory.Value())
	if err != nil {
		return nil, fmt.Errorf("--store-memory: %w", err)
	}
	local, err := newSettling(o, config, "memory", memory, m, tr, nil)
	if err != nil {
		return nil, err
	}
	audit, err := store.NewMemory(store.AuditBytes)
	if err != nil {
		return nil, err
	}
	discards := func(debts store.Settling) func(context.Context) {
		return func(ctx context.Context) { settler.Discard(logr.NewContext(ctx, log), debts) }
	}
	count := func(counts *tally.Counter) func(context.Context) {
		return func(ctx context.Context) { counts.Run(logr.NewContext(ctx, log)) }
	}
	if !o.usesRedis() {
		book := tally.NewMemory()
		counts, busy := tally.NewCounter(book), newBusy(nil, log)
		return &state{
			store: tr.store("memory", false, m.store.observe("memory", memory)), audit: tr.store("memory", true, audit), counts: counts, busy: busy,
			keepers:  []func(context.Context){discards(audit), count(counts)},
			settlers: []settling{local, statuses(book)},
			peeks:    []peekStore{{"memory", memory}},
		}, nil
	}
	connect.LogTo(log)
	client, err := connect.New(*o.Redis)
	if err != nil {
		return nil, err
	}
	redis := store.NewRedis(client, store.RedisOptions{Prefix: o.RedisPrefix, Leased: m.store.tokens})
	fallback, err := store.NewFallback(tr.shared(m.store.observeShared("redis", redis)), memory, fallbackOptions(o, m, log))
	if err != nil {
		return nil, err
	}
	book := tally.NewRedis(client, o.RedisPrefix)
	counts, busy := tally.NewCounter(book), newBusy(busiest.NewRedis(client, o.RedisPrefix), log)
	shared, err := newSettling(o, config, "redis", redis, m, tr, func() settling { return statuses(book) })
	if err != nil {
		return nil, err
	}
	auditRedis := store.NewRedis(client, store.RedisOptions{Prefix: o.RedisPrefix + "audit:"})
	quiet := store.DefaultFallbackOptions()
	quiet.Deadline, quiet.Decided = o.StoreDeadline, noteFallback
	audited, err := store.NewFallback(auditRedis, audit, quiet)
	if err != nil {
		return nil, err
	}
	check := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, o.Redis.DialTimeout+o.Redis.Timeout)
		defer cancel()
		if err := connect.Check(ctx, client); err != nil {
			log.Error(err, "Redis cannot be reached, each policy's onStoreFailure decides until it can")
		}
	}
	return &state{
		store: tr.store("redis", false, fallback), audit: tr.store("redis", true, audited), counts: counts, busy: busy,
		keepers:  []func(context.Context){check, redis.Run, fallback.Run, auditRedis.Run, discards(auditRedis), count(counts), busy.run},
		settlers: []settling{local, shared},
		peeks:    []peekStore{{"redis", redis}, {"memory", memory}},
	}, nil
}

// fallbackOptions tells log and metrics what becomes of the shared store.
func fallbackOptions(o *serveOptions, m *metrics, log logr.Logger) store.FallbackOptions {
	f := store.DefaultFallbackOptions()
	f.Deadline = o.StoreDeadline
	f.OnChange = func(open bool, err error) {
		if open {
			m.store.away.Set(1)
			log.Error(err, "Redis does not answer, each policy's onStoreFailure decides")
			return
		}
		m.store.away.Set(0)
		log.Info("Redis answers again")
	}
	m.store.breakerIs("closed")
	f.Breaker = m.store.breakerIs
	f.Decided = func(ctx context.Context, how store.Failure) {
		m.store.withoutStore.WithLabelValues(how.String()).Inc()
		noteFallback(ctx, how)
	}
	f.HandedOver = func(err error) {
		if err != nil {
			m.store.handOvers.WithLabelValues("failed").Inc()
			log.V(1).Info("Redis did not take over what was decided without it, trying again", "reason", err.Error())
			return
		}
		m.store.handOvers.WithLabelValues("done").Inc()
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

// settle settles until ctx ends, and then what is owed.
func (s *state) settle(ctx context.Context) error {
	settlers, ctx := errgroup.WithContext(ctx)
	for _, one := range s.settlers {
		settlers.Go(func() error { return one.Run(ctx) })
	}
	return settlers.Wait()
}
