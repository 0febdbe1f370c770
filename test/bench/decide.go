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

// question is what the webhook asks a store about one write.
type question struct {
	write  store.Write
	limits store.Limits
}

// decisions are what replicas decide. All Events of distinct objects are admitted, and those of
// the hot one are merged into the first.
func (b *redisBed) decisions(ctx context.Context) ([]redisContender, error) {
	governing := defaults()
	generous, err := clusterQuota(limit(1_000_000, 1_000_000, time.Second))
	if err != nil {
		return nil, err
	}
	pod := []*corev1.Event{starting(0, 0), starting(0, 1), starting(0, 2), starting(0, 3)}
	distinct, err := questions(ctx, governing, pod...)
	if err != nil {
		return nil, err
	}
	bounded, err := questions(ctx, generous, pod...)
	if err != nil {
		return nil, err
	}
	hot, err := questions(ctx, governing, podEvent(0, 0, "BackOff", "Back-off restarting failed container web"))
	if err != nil {
		return nil, err
	}
	return []redisContender{
		{"decide", b.decided(1, ofPods(distinct), store.Admit)},
		{"decide3", b.decided(redisReplicas, ofPods(distinct), store.Admit)},
		{"hot", b.decided(1, ofRepeats(hot[0]), store.Merge)},
		{"hot3", b.decided(redisReplicas, ofRepeats(hot[0]), store.Merge)},
		{"quota3", b.decided(redisReplicas, ofPods(bounded), store.Admit)},
	}, nil
}

// decided lets any of some replicas decide each of many questions.
func (b *redisBed) decided(replicas int, ask func(i int) question, want store.Verdict) func(context.Context) (redisCall, func(), error) {
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
func (b *redisBed) stores(ctx context.Context, n int) (stores []*redisstore.Store, stop func()) {
	b.prefixes++
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, client := range b.replicas[:n] {
		s := redisstore.New(client, redisstore.Options{Prefix: redisstore.DefaultPrefix + strconv.Itoa(b.prefixes) + ":"})
		running.Go(func() { s.Run(ctx) })
		stores = append(stores, s)
	}
	return stores, func() {
		cancel()
		running.Wait()
	}
}

// ofPods asks what is asked about the Events of one pod about those of many, redisObjects of them
// at a time: the first Event of each, then the second of each.
func ofPods(pod []question) func(i int) question {
	return func(i int) question {
		turn, at := i/redisObjects, i%redisObjects
		serial := uint64(turn/len(pod)*redisObjects + at)
		q := pod[turn%len(pod)]
		w := &q.write
		for _, key := range []*store.Key{&w.Group, &w.Object, &w.Exact, &w.Similar} {
			// A product with an odd number differs for each serial, and looks like a hash.
			binary.LittleEndian.PutUint64(key[:], binary.LittleEndian.Uint64(key[:])^serial*0x9e3779b97f4a7c15)
		}
		w.Name += strconv.Itoa(i)
		return q
	}
}

// ofRepeats asks about repeats of one Event, each under a name of its own.
func ofRepeats(q question) func(i int) question {
	return func(i int) question {
		q := q
		q.write.Name += strconv.Itoa(i)
		return q
	}
}

// notebook is a store that admits everything and notes what it is asked.
type notebook []question

var _ store.Store = (*notebook)(nil)

// Decide implements store.Store.
func (n *notebook) Decide(_ context.Context, _ time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	*n = append(*n, question{w, l})
	return store.Decision{}, nil
}

// questions are what the webhook asks a store about the CREATE of Events.
func questions(ctx context.Context, governing *policy.Current, events ...*corev1.Event) ([]question, error) {
	var asked notebook
	gate := newGate(governing, &asked)
	for _, e := range events {
		if err := ask(ctx, gate, e, admission.Admitted); err != nil {
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
	return policy.InForce(policy.NewSet(policy.Default(), rules, nil)), nil
}
