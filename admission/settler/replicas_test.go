package settler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestCountsOfThreeReplicasAgree has three replicas of one Redis decide at the same time, while they take turns to settle
// for all.
func TestCountsOfThreeReplicasAgree(t *testing.T) {
	t.Parallel()
	const pods, writers, each, patient = 10, 4, 60, time.Minute
	address := redistest.Start(t, redistest.Options{}).Addr()
	r := newRig(t)
	var replicas []*redis.Store
	var deciding, running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for n := range 3 {
		o := redisclient.DefaultOptions()
		o.Addresses, o.Timeout = []string{address}, patient
		client, err := redisclient.New(*o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		lost := func(_ time.Time, _ string, _ store.Key, d *rules.Drops) { t.Errorf("%d occurrences were not reported", d.Total) }
		s := redis.New(client, redis.Options{Prefix: "test:", TripTimeout: patient, Unreported: lost})
		replicas = append(replicas, s)
		running.Go(func() { s.Run(ctx) })
		for w := range writers {
			deciding.Go(func() {
				for i := range each {
					e := event("default", fmt.Sprintf("web-%d.%d-%d-%d", i%pods, n, w, i), about(fmt.Sprint("web-", i%pods)), func(e *corev1.Event) {
						e.Message = fmt.Sprint("pulled ", i%7)
					})
					write, limits := asked(t, e, func(p *policy.Policy) { p.Merge.WriteInterval, p.SpamFilter.Burst = 10*time.Millisecond, 5 })
					deciding, cancel := context.WithTimeout(ctx, patient)
					d, err := s.Decide(deciding, time.Now(), write, limits)
					cancel()
					if err != nil && !errors.Is(err, store.ErrUnconfirmed) {
						t.Errorf("Decide: %v", err)
					}
					if d.Verdict.Admits() {
						r.put(e)
					}
				}
			})
		}
	}
	decided := make(chan struct{})
	go func() {
		deciding.Wait()
		stop()
		running.Wait()
		close(decided)
	}()
	for turn := 0; ; turn++ {
		s := replicas[turn%len(replicas)]
		if err := r.settle(s, 100*time.Millisecond, settler.Options{Shared: true, WritesPerSecond: 10_000, Poll: 10 * time.Millisecond}); err != nil {
			t.Error(err)
		}
		select {
		case <-decided:
		default:
			continue
		}
		if left, err := s.Pending(t.Context()); err != nil {
			t.Fatal(err)
		} else if left == 0 {
			break
		}
	}
	total := int32(0)
	for _, e := range r.events {
		total += e.Count
	}
	if want := int32(3 * writers * each); total != want {
		t.Errorf("stored Events and notices report %d occurrences of %d", total, want)
	}
	if len(r.events) > 2*pods*(5+1) {
		t.Errorf("%d Events are stored", len(r.events))
	}
}
