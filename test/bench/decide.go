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

// storeCall has the arguments with which the webhook calls store.Store.Decide.
type storeCall struct {
	write  store.Write
	limits store.Limits
}

// decisionContenders returns the contenders that measure decisions. Events about distinct objects are all admitted. Events about the
// hot object are all merged into its first one.
func (env *redisEnv) decisionContenders(ctx context.Context) ([]redisContender, error) {
	policies := defaults()
	generous, err := clusterQuota(limit(1_000_000, 1_000_000, time.Second))
	if err != nil {
		return nil, err
	}
	pod := []*corev1.Event{startupEvent(0, 0), startupEvent(0, 1), startupEvent(0, 2), startupEvent(0, 3)}
	distinct, err := captureStoreCalls(ctx, policies, pod...)
	if err != nil {
		return nil, err
	}
	bounded, err := captureStoreCalls(ctx, generous, pod...)
	if err != nil {
		return nil, err
	}
	hot, err := captureStoreCalls(ctx, policies, podEvent(0, 0, "BackOff", "Back-off restarting failed container web"))
	if err != nil {
		return nil, err
	}
	return []redisContender{
		{"decide", env.decideWith(1, perPod(distinct), store.Admit)},
		{"decide3", env.decideWith(redisReplicas, perPod(distinct), store.Admit)},
		{"hot", env.decideWith(1, perRepeat(hot[0]), store.Merge)},
		{"hot3", env.decideWith(redisReplicas, perRepeat(hot[0]), store.Merge)},
		{"quota3", env.decideWith(redisReplicas, perPod(bounded), store.Admit)},
	}, nil
}

// decideWith returns the start function of a contender. Each call goes to a random one of the replicas, with the arguments that
// argsFor returns for its number, and fails unless the verdict is want.
func (env *redisEnv) decideWith(replicas int, argsFor func(i int) storeCall, want store.Verdict) func(context.Context) (redisCall, func(), error) {
	return func(ctx context.Context) (redisCall, func(), error) {
		stores, stop := env.stores(ctx, replicas)
		for i, s := range stores { // connects, and stores an Event that later ones can be merged into
			c := argsFor(i)
			if _, err := s.Decide(ctx, time.Now(), c.write, c.limits); err != nil {
				stop()
				return nil, nil, err
			}
		}
		return func(ctx context.Context, i int) error {
			c := argsFor(replicas + i)
			d, err := stores[rand.IntN(replicas)].Decide(ctx, time.Now(), c.write, c.limits)
			if err == nil && d.Verdict != want {
				return fmt.Errorf("got verdict %v, want %v", d.Verdict, want)
			}
			return err
		}, stop, nil
	}
}

// stores starts n stores that share a new key prefix. stop ends them.
func (env *redisEnv) stores(ctx context.Context, n int) (stores []*redisstore.Store, stop func()) {
	env.prefixCount++
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, client := range env.replicas[:n] {
		s := redisstore.New(client, redisstore.Options{Prefix: redisstore.DefaultPrefix + strconv.Itoa(env.prefixCount) + ":"})
		running.Go(func() { s.Run(ctx) })
		stores = append(stores, s)
	}
	return stores, func() {
		cancel()
		running.Wait()
	}
}

// perPod turns the calls for the Events of one pod into calls for many pods. It takes redisObjects pods at a time, with the first
// Event of each pod, then the second of each, and so on.
func perPod(pod []storeCall) func(i int) storeCall {
	return func(i int) storeCall {
		turn, at := i/redisObjects, i%redisObjects
		serial := uint64(turn/len(pod)*redisObjects + at)
		c := pod[turn%len(pod)]
		w := &c.write
		for _, key := range []*store.Key{&w.GroupKey, &w.ObjectKey, &w.ExactKey, &w.SimilarKey} {
			// The product with an odd constant is different for each serial, and spreads like a hash.
			binary.LittleEndian.PutUint64(key[:], binary.LittleEndian.Uint64(key[:])^serial*0x9e3779b97f4a7c15)
		}
		w.Name += strconv.Itoa(i)
		return c
	}
}

// perRepeat turns the call for one Event into calls for its repeats, each with another name.
func perRepeat(first storeCall) func(i int) storeCall {
	return func(i int) storeCall {
		c := first
		c.write.Name += strconv.Itoa(i)
		return c
	}
}

// capturingStore is a store that admits everything and records its calls.
type capturingStore []storeCall

var _ store.Store = (*capturingStore)(nil)

// Decide implements store.Store.
func (s *capturingStore) Decide(_ context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	*s = append(*s, storeCall{w, l})
	return store.Decision{}, nil
}

// captureStoreCalls returns the store calls that the webhook makes for CREATEs of the Events.
func captureStoreCalls(ctx context.Context, policies *policy.Current, events ...*corev1.Event) ([]storeCall, error) {
	var calls capturingStore
	gate := newGate(policies, &calls)
	for _, e := range events {
		if err := decide(ctx, gate, e, admission.Admitted); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// clusterQuota returns the default policy together with a ClusterEventQuota that limits all Events.
func clusterQuota(limit *v1alpha1.Limit) (*policy.Current, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	quota := &v1alpha1.ClusterEventQuota{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	quota.Spec.Limits = []v1alpha1.Limit{*limit}
	rules, err := compiler.Compile(quota)
	if err != nil {
		return nil, err
	}
	return policy.NewCurrent(policy.NewSet(policy.Default(), rules, nil)), nil
}
