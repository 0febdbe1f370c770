package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/flood"
	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// redisObjects is the number of sources and objects, or keys, that calls use in turn.
	redisObjects  = 1000
	redisReplicas = 3
	// redisTimeout is the time by which a call may exceed its measurement.
	redisTimeout = 10 * time.Second
)

// redisCallers returns the numbers of concurrent callers to measure.
func redisCallers() []int { return []int{1, 32, 128} }

// redisContenders returns the names of the contenders, in the order of the table.
func redisContenders() []string {
	return []string{"rate", "decide", "decide3", "hot", "hot3", "quota3"}
}

// redisEnv has a Redis without persistence, and its clients.
type redisEnv struct {
	server        *redistest.Server
	defaultClient *redis.Client         // with the defaults of go-redis
	replicas      []*redisclient.Client // with the webhook's options
	prefixCount   int                   // number of key prefixes used so far
}

// redisCall makes one call. i is unique within a measurement.
type redisCall func(ctx context.Context, i int) error

// redisContender is a kind of call to measure.
type redisContender struct {
	name string
	// start prepares a measurement. The caller must call stop after it.
	start func(ctx context.Context) (call redisCall, stop func(), err error)
}

// benchRedis measures every contender once in each round for each number of callers, in an order that rotates. Then it measures once how
// much memory Redis needs for many sources and objects. It returns an error if a call fails or has an unexpected result.
func benchRedis(ctx context.Context, o options) (rounds []figures, err error) {
	env, err := newRedisEnv(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.close()) }()
	all, err := env.contenders(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all { // connects
		if _, err := env.measure(ctx, c, redisCallers()[len(redisCallers())-1], 0); err != nil {
			return nil, err
		}
	}
	for round := range o.rounds {
		f := figures{}
		for _, callers := range redisCallers() {
			for i := range all {
				c := all[(round+i)%len(all)]
				spent, err := env.measure(ctx, c, callers, o.redisTime())
				if err != nil {
					return nil, err
				}
				spent.figures(c.name, callers, f)
			}
			for _, c := range all[1:] {
				rateRatios(f, c.name, callers)
			}
			progress("round %d of %d: Redis, %3d callers: %.0f decisions/s", round+1, o.rounds, callers, f[redisFigure("decide", callers)])
		}
		rounds = append(rounds, f)
	}
	f, err := env.measureMemory(ctx, o.objects)
	return append(rounds, f), err
}

// measure empties Redis and then makes calls of a contender, from several callers at the same time, until window has passed.
func (env *redisEnv) measure(ctx context.Context, c redisContender, callers int, window time.Duration) (spent redisUsage, err error) {
	if err := env.defaultClient.FlushDB(ctx).Err(); err != nil {
		return spent, fmt.Errorf("empty Redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, window+redisTimeout)
	defer cancel()
	call, stop, err := c.start(ctx)
	if err != nil {
		return spent, fmt.Errorf("redis_%s: %w", c.name, err)
	}
	defer stop()
	before, err := env.processorTimes(ctx)
	if err != nil {
		return spent, err
	}
	calls, elapsed, err := measureCalls(ctx, callers, window, call)
	if err != nil {
		return spent, fmt.Errorf("redis_%s, %d callers: %w", c.name, callers, err)
	}
	after, err := env.processorTimes(ctx)
	return redisUsage{calls, elapsed, after.server - before.server, after.caller - before.caller}, err
}

// newRedisEnv starts Redis and connects the clients. The caller must close the result.
func newRedisEnv(ctx context.Context) (_ *redisEnv, err error) {
	env := &redisEnv{}
	if env.server, err = redistest.New(ctx, redistest.Options{}); err != nil {
		return nil, err
	}
	env.defaultClient = redis.NewClient(&redis.Options{Addr: env.server.Addr()})
	for range redisReplicas {
		o := redisclient.DefaultOptions()
		o.Addresses = []string{env.server.Addr()}
		o.Timeout = redisTimeout
		client, err := redisclient.New(*o)
		if err != nil {
			return nil, errors.Join(err, env.close())
		}
		env.replicas = append(env.replicas, client)
	}
	return env, nil
}

func (env *redisEnv) close() error {
	errs := []error{env.defaultClient.Close()}
	for _, client := range env.replicas {
		errs = append(errs, client.Close())
	}
	return errors.Join(append(errs, env.server.Close())...)
}

// contenders returns all contenders, in the order of the table. The others are compared with the first.
func (env *redisEnv) contenders(ctx context.Context) ([]redisContender, error) {
	decisions, err := env.decisionContenders(ctx)
	return append([]redisContender{{"rate", env.rateContender}}, decisions...), err
}

// rateContender calls Allow of redis_rate with each key in turn.
func (env *redisEnv) rateContender(context.Context) (redisCall, func(), error) {
	limiter := redis_rate.NewLimiter(env.defaultClient)
	limit := redis_rate.PerSecond(100_000) // allows every call, and still stores a value
	keys := make([]string, redisObjects)
	for i := range keys {
		keys[i] = "pod-" + strconv.Itoa(i)
	}
	return func(ctx context.Context, i int) error {
		result, err := limiter.Allow(ctx, keys[i%redisObjects], limit)
		if err == nil && (result.Allowed != 1 || result.ResetAfter <= 0) {
			return fmt.Errorf("redis_rate allowed %d and resets after %s, want 1 and a time above 0", result.Allowed, result.ResetAfter)
		}
		return err
	}, func() {}, nil
}

// startupEvent returns the n-th of the four Events that a kubelet writes while it starts a pod, for n from 0 to 3.
func startupEvent(serial, n int) *corev1.Event {
	reason, message := "Started", "Started container web"
	switch n {
	case 0:
		reason, message = "Pulling", `Pulling image "registry.example.com/shop/web:1.14.2"`
	case 1:
		reason, message = "Pulled", `Successfully pulled image "registry.example.com/shop/web:1.14.2" in 1.204s. Image size: 71300213 bytes.`
	case 2:
		reason, message = "Created", "Created container: web"
	}
	return podEvent(serial, n, reason, message)
}

// podsOfANamespace is the number of pods in a namespace. Their registers are within the limit of a namespace.
const podsOfANamespace = 1000

// podEvent returns an Event about the pod with a serial number. Events about the same pod with different n have different names.
func podEvent(serial, n int, reason, message string) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-" + strconv.Itoa(serial/podsOfANamespace)},
		Source:     corev1.EventSource{Component: "kubelet", Host: "node-" + strconv.Itoa(serial%500)},
		Reason:     reason, Message: message, Type: corev1.EventTypeNormal, Count: 1,
	}
	flood.SetPod(e, "web-6d4b75cb6d-"+strconv.Itoa(serial))
	e.Name = fmt.Sprintf("%s.%016x", e.InvolvedObject.Name, 0x17c8f0a1b2c3d000+n)
	e.FirstTimestamp = metav1.Now()
	e.LastTimestamp = e.FirstTimestamp
	return e
}

// defaults returns the policies of a cluster without policies and quotas.
func defaults() *policy.Current {
	return policy.NewCurrent(policy.NewSet(policy.Default(), policy.Rules{}, nil))
}

// newGate returns a gate that decides according to policies.
func newGate(policies *policy.Current, s store.Store) *admission.Gate {
	return &admission.Gate{Policies: policies, Store: s, Now: time.Now, MaxWriteInterval: time.Minute}
}

// decide passes a CREATE of e through the mutating phase, and returns an error unless the outcome is want.
func decide(ctx context.Context, gate *admission.Gate, e *corev1.Event, want admission.Outcome) error {
	a, err := gate.Mutate(ctx, &admission.Request{
		Request: policy.Request{
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Event"},
			Namespace: e.Namespace, Operation: admissionv1.Create,
		},
		Object: e,
	})
	if err == nil && a.Outcome != want {
		return fmt.Errorf("got outcome %s for Event %s, want %s", a.Outcome, e.Name, want)
	}
	return err
}
