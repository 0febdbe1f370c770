package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/test/flood"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// The stores of a webhook.
const (
	embeddedStore storeKind = iota
	nearRedis               // on this machine
	distantRedis            // the same Redis, from which answers take distance longer
)

// storeKind selects the store of a webhook.
type storeKind int

const (
	// distance is the additional round-trip time of distantRedis.
	distance = time.Millisecond
	// pings is the number of round trips of which pingRedis takes the median.
	pings = 200
)

// serialScenarios returns the scenarios of one writer that waits for each answer, in the order of the table.
func serialScenarios() []scenario {
	const created, merged, dropped = http.StatusCreated, http.StatusConflict, http.StatusBadRequest
	// With the longest deadline of the store, only a failure makes the webhook decide without Redis.
	prompt, patient := &webhook{realWebhook, nil}, &webhook{realWebhook, []string{"--store-deadline=1s"}}
	all := []scenario{
		{name: "serial_none", event: flood.Distinct, want: []int{created}},
		{name: "serial_noop", event: flood.Distinct, want: []int{created}, webhook: &webhook{plainWebhook, []string{"--answer=" + answerAllow}}},
		{name: "serial_admit", event: flood.Distinct, want: []int{created}, webhook: prompt},
		{name: "serial_merge", event: flood.Repeats, want: []int{merged}, webhook: prompt},
		{name: "serial_drop", event: flood.Distinct, want: []int{dropped}, webhook: prompt, limit: noTokens()},
		{name: "serial_redis", event: flood.Distinct, want: []int{created}, webhook: patient, store: nearRedis},
		{name: "serial_redis_1ms", event: flood.Distinct, want: []int{created}, webhook: patient, store: distantRedis},
	}
	for i := range all {
		all[i].serial = true
	}
	return all
}

// benchSerial measures the latency of one writer. It is like benchAPI, but at each time only one Event is in flight.
func benchSerial(ctx context.Context, o options) (rounds []figures, err error) {
	env, err := newTestEnv(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.stop()) }()
	if err := env.startRedis(ctx); err != nil {
		return nil, err
	}
	all := serialScenarios()
	for round := range o.rounds {
		f := figures{}
		if err := env.measureSteady(ctx, all, o.window(), round, f); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		progressOf(all, f, round, o)
		serialDifferences(f)
		if err := env.pingRedis(ctx, f); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// startRedis starts Redis without persistence, and sets env.redis.
func (env *testEnv) startRedis(ctx context.Context) error {
	near, err := redistest.New(ctx, redistest.Options{})
	if err != nil {
		return err
	}
	env.stoppers = append(env.stoppers, near.Close)
	far, err := newDistantServer(ctx, near.Addr(), distance)
	if err != nil {
		return err
	}
	env.stoppers = append(env.stoppers, far.stop)
	env.redis = map[storeKind]string{nearRedis: near.Addr(), distantRedis: far.Addr().String()}
	return nil
}

// pingRedis adds the median round-trip times of Redis to the figures of one round, which tell how far away it is in fact.
func (env *testEnv) pingRedis(ctx context.Context, f figures) error {
	for kind, name := range map[storeKind]string{nearRedis: "serial_redis_ping_ms", distantRedis: "serial_redis_1ms_ping_ms"} {
		client := redis.NewClient(&redis.Options{Addr: env.redis[kind]})
		var took []float64
		for range pings {
			began := time.Now()
			if err := client.Ping(ctx).Err(); err != nil {
				return errors.Join(fmt.Errorf("ping Redis: %w", err), client.Close())
			}
			took = append(took, float64(time.Since(began))/float64(time.Millisecond))
		}
		if err := client.Close(); err != nil {
			return fmt.Errorf("ping Redis: %w", err)
		}
		f[name] = median(took)
	}
	return nil
}

// serialDifferences adds comparisons between the scenarios of one writer to the figures of one round.
func serialDifferences(f figures) {
	for _, s := range serialScenarios()[1:] {
		f.ratio(s.name+"_over_none", s.name+"_per_s", "serial_none_per_s")
		f.difference(s.name+"_above_none_ms", s.name+"_p50_ms", "serial_none_p50_ms")
	}
	f.difference("serial_admit_above_noop_ms", "serial_admit_p50_ms", "serial_noop_p50_ms")
	f.difference("serial_redis_above_admit_ms", "serial_redis_p50_ms", "serial_admit_p50_ms")
	f.difference("serial_redis_1ms_above_redis_ms", "serial_redis_1ms_p50_ms", "serial_redis_p50_ms")
}

// serial prints the figures of one writer.
func (r report) serial(rounds []figures, o options) {
	fmt.Fprintf(r.out, "\nReal API server with one writer, medians of %d rounds of %gs:\n\n", o.rounds, o.seconds)
	r.table(func(row func(string, ...any)) {
		row("\tEvents/s\tmin to max\tp50 ms\tp99 ms\tp50 above none, ms\tAPI server us\twebhook us\tfailed calls")
		for _, s := range serialScenarios() {
			v := func(figure string) float64 { return r.medians[s.name+figure] }
			row("%s\t%.0f\t%s\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f", s.name, v("_per_s"), span(values(rounds, s.name+"_per_s")), v("_p50_ms"), v("_p99_ms"),
				v("_above_none_ms"), v("_apiserver_us"), v("_webhook_us"), sum(values(rounds, s.name+"_webhook_failures")))
		}
	})
	fmt.Fprintf(r.out, "\nA round trip to Redis takes %.2f ms, and with the delay %.2f ms.\n", r.medians["serial_redis_ping_ms"], r.medians["serial_redis_1ms_ping_ms"])
}
