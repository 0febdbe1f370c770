package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
	redisstore "github.com/eventquota/eventquota/store/redis"
)

// storeCall is what the webhook asks a store about one write.
type storeCall struct {
	write  store.Write
	limits store.Limits
}

// decisionContenders are what replicas decide. All Events of distinct objects are admitted, and those of
// the hot one are merged into the first.
func (b *redisEnv) decisionContenders(ctx context.Context) ([]redisContender, error) {
	governing := defaults()
	generous, err := clusterQuota(limit(1_000_000, 1_000_000, time.Second))
	if err != nil {
		return nil, err
	}
	pod := []*corev1.Event{startupEvent(0, 0), startupEvent(0, 1), startupEvent(0, 2), startupEvent(0, 3)}
	distinct, err := captureStoreCalls(ctx, governing, pod...)
	if err != nil {
		return nil, err
	}
	bounded, err := captureStoreCalls(ctx, generous, pod...)
	if err != nil {
		return nil, err
	}
	hot, err := captureStoreCalls(ctx, governing, podEvent(0, 0, "BackOff", "Back-off restarting failed container web"))
	if err != nil {
		return nil, err
	}
	return []redisContender{
		{"decide", b.decideWith(1, perPod(distinct), store.Admit)},
		{"decide3", b.decideWith(redisReplicas, perPod(distinct), store.Admit)},
		{"hot", b.decideWith(1, perRepeat(hot[0]), store.Merge)},
		{"hot3", b.decideWith(redisReplicas, perRepeat(hot[0]), store.Merge)},
		{"quota3", b.decideWith(redisReplicas, perPod(bounded), store.Admit)},
	}, nil
}

// decideWith lets any of some replicas decide each of many questions.
func (b *redisEnv) decideWith(replicas int, ask func(i int) storeCall, want store.Verdict) func(context.Context) (redisCall, func(), error) {
	return func(ctx context.Context) (redisCall, func(), error) {
		stores, stop := b.stores(ctx, replicas)
		for i, s := range stores { // meets Redis, and has an Event to merge others into
			q := ask(i)
			if _, err := s.Decide(ctx, time.Now(), q.write, q.limits); err != nil {
				stop()
				return nil, nil, err
			}
		}
		return func(ctx context.Context, i int) error {
			q := ask(replicas + i)
			d, err := stores[rand.IntN(replicas)].Decide(ctx, time.Now(), q.write, q.limits)
			if err == nil && d.Verdict != want {
				return fmt.Errorf("decided to %v, want %v", d.Verdict, want)
			}
			return err
		}, stop, nil
	}
}

// stores are replicas that share nothing with those before.
func (b *redisEnv) stores(ctx context.Context, n int) (stores []*redisstore.Store, stop func()) {
	b.prefixCount++
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, client := range b.replicas[:n] {
		s := redisstore.New(client, redisstore.Options{Prefix: redisstore.DefaultPrefix + strconv.Itoa(b.prefixCount) + ":"})
		running.Go(func() { s.Run(ctx) })
		stores = append(stores, s)
	}
	return stores, func() {
		cancel()
		running.Wait()
	}
}

// perPod asks what is asked about the Events of one pod about those of many, redisObjects of them
// at a time: the first Event of each, then the second of each.
func perPod(pod []storeCall) func(i int) storeCall {
	return func(i int) storeCall {
		turn, at := i/redisObjects, i%redisObjects
		serial := uint64(turn/len(pod)*redisObjects + at)
		q := pod[turn%len(pod)]
		w := &q.write
		for _, key := range []*store.Key{&w.GroupKey, &w.ObjectKey, &w.ExactKey, &w.SimilarKey} {
			// A product with an odd number differs for each serial, and looks like a hash.
			binary.LittleEndian.PutUint64(key[:], binary.LittleEndian.Uint64(key[:])^serial*0x9e3779b97f4a7c15)
		}
		w.Name += strconv.Itoa(i)
		return q
	}
}

// perRepeat asks about repeats of one Event, each under a name of its own.
func perRepeat(q storeCall) func(i int) storeCall {
	return func(i int) storeCall {
		q := q
		q.write.Name += strconv.Itoa(i)
		return q
	}
}

// capturingStore is a store that admits everything and notes what it is asked.
type capturingStore []storeCall

var _ store.Store = (*capturingStore)(nil)

// Decide implements store.Store.
func (n *capturingStore) Decide(_ context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	*n = append(*n, storeCall{w, l})
	return store.Decision{}, nil
}

// captureStoreCalls are what the webhook asks a store about the CREATE of Events.
func captureStoreCalls(ctx context.Context, governing *policy.Current, events ...*corev1.Event) ([]storeCall, error) {
	var asked capturingStore
	gate := newGate(governing, &asked)
	for _, e := range events {
		if err := decide(ctx, gate, e, admission.Admitted); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

// clusterQuota is the default policy, and a limit for all Events.
func clusterQuota(limit *v1alpha1.Limit) (*policy.Current, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	in := &v1alpha1.ClusterEventQuota{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	in.Spec.Limits = []v1alpha1.Limit{*limit}
	rules, err := compiler.Compile(in)
	if err != nil {
		return nil, err
	}
	return policy.NewCurrent(policy.NewSet(policy.Default(), rules, nil)), nil
}
