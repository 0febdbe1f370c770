package e2e

import (
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/storm"
)

const (
	// localReportWithin bounds how long a replica may hold its local refusals: the 200 ms between two reports to
	// Redis, plus the time of a report on a busy machine.
	localReportWithin = time.Second
	// replicatedWithin bounds the time that Redis may take to replicate a write.
	replicatedWithin = time.Second
	// stormStartedAfter is the number of answered reviews after which a storm is under way.
	stormStartedAfter = 200
	// pace is the number of calls a second of a storm. It is low, so that a storm with few Events outlasts a fault.
	// briefly, spamming and longer are the Events per recorder of storms of 21, 36 and 47 seconds.
	pace, briefly, spamming, longer = 20, 30, 42, 60
	// minCallsAfterFault is the minimum number of calls of a storm after a fault.
	minCallsAfterFault = 100
)

// faultEnv is a setEnv whose replicas share a Redis.
type faultEnv struct {
	*setEnv
	redis faultyRedis
	log   *cluster.AuditLog
	calls []auditCall // parsed so far
}

// newFaultEnv starts three replicas.
func newFaultEnv(t *testing.T, r faultyRedis) *faultEnv {
	t.Helper()
	flags := append([]string{
		// New endpoints soon get their share of the calls.
		"--calls-per-connection=10",
		// Redis is unavailable only when the test stops it, not because the machine is busy.
		"--store-deadline=500ms",
		// Claimed writes stay in progress for some seconds.
		"--settle-rate=40",
		statusFlag,
	}, r.flags()...)
	return newSetEnv(t, 3, flags...).withRedis(r)
}

// withRedis returns e with a Redis.
func (e *setEnv) withRedis(r faultyRedis) *faultEnv {
	return &faultEnv{setEnv: e, redis: r, log: &cluster.AuditLog{Path: e.cluster.AuditLog}}
}

// fault is a failure during a storm. The storm's namespace has the same name.
type fault struct {
	name   string
	inject func(*faultEnv) *faultyStorm
}

// faultyStorm is a storm with a fault.
type faultyStorm struct {
	*faultEnv
	namespace string
	over      chan error
	begun     time.Time
	faultTime time.Time // when the fault was injected
	// allowedMissing and allowedDuplicates bound the occurrences that may be missing or reported twice.
	allowedMissing, allowedDuplicates int64
}

// runFaults injects the faults one after the other, each during a storm. In the end, no more occurrences may be
// missing, or reported twice, than the faults explain.
func (e *faultEnv) runFaults(faults ...fault) {
	e.Helper()
	var storms []*faultyStorm
	for _, f := range faults {
		e.Run(f.name, func(t *testing.T) {
			storms = append(storms, f.inject(e.forSubtest(t).withRedis(e.redis)))
		})
	}
	for i := range e.set.Replicas {
		e.must(e.set.Stop(e.Context(), i)) // a replica writes its own pending counts before it exits
	}
	sent := e.audit().PerNamespace()
	for _, s := range storms {
		e.checkOccurrences(s, sent[s.namespace])
	}
}

// newStorm returns a storm in a new namespace with the name of the subtest.
func (e *faultEnv) newStorm() *faultyStorm {
	e.Helper()
	return &faultyStorm{faultEnv: e, namespace: e.namespace(path.Base(e.Name()))}
}

// begin starts a storm and returns once it is under way. events is the number of Events per recorder.
func (e *faultEnv) begin(pods, events int) *faultyStorm {
	e.Helper()
	s, before := e.newStorm(), e.answered()
	s.over, s.begun = make(chan error, 1), time.Now()
	config := rest.CopyConfig(e.config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(pace, pace)
	go func() {
		_, err := storm.Storm{
			Namespace: s.namespace, Pods: pods, Events: events,
			Repeating: 4, Similar: 4, Series: 2, Reasons: 4,
		}.Run(e.Context(), config)
		s.over <- err
	}()
	e.eventually("the storm is under way", func() bool { return e.answered()-before > stormStartedAfter })
	return s
}

// end waits until the storm is over and all counts of replicas and Redis are reported. It checks that the storm
// continued after the fault.
func (s *faultyStorm) end() (calls []auditCall) {
	s.Helper()
	s.must(<-s.over)
	calls = s.auditCalls(s.namespace)
	after := 0
	for _, c := range calls {
		if c.begun.After(s.faultTime) {
			after++
		}
	}
	s.Logf("the storm took %s; %d of its %d calls came after the fault", time.Since(s.begun).Round(time.Second), after, len(calls))
	if after < minCallsAfterFault {
		s.Errorf("%d calls came after the fault, want at least %d", after, minCallsAfterFault)
	}
	begun := time.Now()
	s.waitIdle()
	s.Logf("outcomes at each replica: %v", s.outcomes())
	s.Logf("all counts were written %s later", time.Since(begun).Round(time.Second))
	return calls
}

// allow sets the numbers of occurrences that the fault explains, and returns s.
func (s *faultyStorm) allow(missing, twice int64) *faultyStorm {
	s.allowedMissing, s.allowedDuplicates = missing, twice
	return s
}

// checkOccurrences checks that no more occurrences of a storm are missing or reported twice than its fault allows.
// All replicas must have stopped.
func (e *faultEnv) checkOccurrences(s *faultyStorm, sent int64) {
	e.Helper()
	calls := e.auditCalls(s.namespace)
	missing, twice := s.allowedMissing, s.allowedDuplicates+nameCollisions(calls) // Events with the same name count as one
	reported, late := e.reportedOccurrences(s.namespace), e.lateOccurrences(s.namespace)
	e.Logf("%s: %d occurrences reached the API server, %d are reported and %d will be; up to %d may be missing, and up to %d reported twice",
		s.namespace, sent, reported, late, missing, twice)
	if reported += late; reported < sent-missing || reported > sent+twice {
		e.Errorf("%s: stored Events and notices report %d occurrences, want the %d that reached the API server, or up to %d fewer or %d more",
			s.namespace, reported, sent, missing, twice)
	}
	if reported != sent {
		e.Logf("differences between calls and stored Events:\n%s", strings.Join(e.countDifferences(s.namespace, calls), "\n"))
	}
}

// answered returns how many reviews the running replicas have answered.
func (e *setEnv) answered() (n int64) {
	e.Helper()
	for _, each := range e.metricOfEach("eventquota_decisions_total") {
		n += each
	}
	return n
}

// leader returns the index of the replica that writes pending counts for all.
func (e *faultEnv) leader() (leader int) {
	e.Helper()
	e.eventually("a replica leads", func() (leads bool) {
		var err error
		leader, err = e.set.Leader(e.Context())
		e.must(err)
		return leader >= 0
	})
	return leader
}

// faultyRedis is a Redis of any topology into which a test injects faults.
type faultyRedis struct {
	// options configures a client.
	options redisclient.Options
	// keys has one key for each master.
	keys []string
	// master returns the server that holds a key.
	master func(ctx context.Context, key string) (*redistest.Server, error)
	// kill kills a master in use and waits until its process has ended.
	kill func(ctx context.Context) error
	// copies is the number of replicas of a master.
	copies int
}

// newStandaloneRedis starts a server that keeps every write that it has acknowledged.
func newStandaloneRedis(t *testing.T) faultyRedis {
	t.Helper()
	server := redistest.Start(t, redistest.Options{Persist: true, Fsync: "always"})
	return faultyRedis{
		options: redisclient.Options{Addresses: []string{server.Addr()}},
		keys:    []string{"{a}"},
		master:  func(context.Context, string) (*redistest.Server, error) { return server, nil },
	}
}

func newSentinelRedis(t *testing.T) faultyRedis {
	t.Helper()
	s := redistest.StartSentinel(t, redistest.Options{})
	r := faultyRedis{options: redisclient.Options{Addresses: s.Addrs(), SentinelMaster: redistest.MasterName}, keys: []string{"{a}"}, copies: 2}
	r.master = func(ctx context.Context, _ string) (*redistest.Server, error) { return s.Master(ctx) }
	r.kill = func(ctx context.Context) error {
		_, err := s.KillMaster(ctx)
		return err
	}
	return r
}

func newClusterRedis(t *testing.T) faultyRedis {
	t.Helper()
	c := redistest.StartCluster(t, redistest.Options{}, 3, 1)
	r := faultyRedis{options: redisclient.Options{Addresses: c.Addrs(), Cluster: true}, copies: 1}
	r.keys = []string{"{a}", "{b}", "{c}"} // one in each third of the slots
	r.master = c.MasterOf
	r.kill = func(ctx context.Context) error {
		_, err := c.KillMasterOf(ctx, r.keys[0])
		return err
	}
	return r
}

// flags returns the flags with which a replica uses this Redis.
func (r *faultyRedis) flags() []string {
	return []string{
		"--redis-addresses=" + strings.Join(r.options.Addresses, ","),
		"--redis-sentinel-master=" + r.options.SentinelMaster,
		"--redis-cluster=" + strconv.FormatBool(r.options.Cluster),
	}
}

// masters returns the masters that together hold all keys. All must be running.
func (e *faultEnv) masters() (masters []*redistest.Server) {
	e.Helper()
	for _, key := range e.redis.keys {
		master, err := e.redis.master(e.Context(), key)
		e.must(err)
		masters = append(masters, master)
	}
	return masters
}

// waitReplicated waits until the replicas of every master have all its acknowledged writes, and returns the elapsed
// time.
func (e *faultEnv) waitReplicated() time.Duration {
	e.Helper()
	begun := time.Now()
	for i, master := range e.masters() {
		conn := master.Client().Conn() // WAIT waits for the writes of one connection
		e.must(conn.Set(e.Context(), e.redis.keys[i], "", time.Minute).Err())
		n, err := conn.Wait(e.Context(), e.redis.copies, time.Second).Result()
		e.must(errors.Join(err, conn.Close()))
		if n < int64(e.redis.copies) {
			e.Fatalf("%d replicas of %s are in sync, want %d", n, master.Addr(), e.redis.copies)
		}
	}
	return time.Since(begun)
}

// values returns the values of a metric of a replica, one for each set of labels.
func (e *env) values(r *replica.Replica, metric string) []*dto.Metric {
	e.Helper()
	values, err := r.Metric(e.Context(), metric)
	e.must(err)
	return values
}

// metric returns the sum of all values of a counter or gauge of a replica.
func (e *setEnv) metric(r *replica.Replica, name string) int64 {
	e.Helper()
	sum, err := r.Sum(e.Context(), name)
	e.must(err)
	return sum
}

// metricOfEach returns a metric of each replica.
func (e *setEnv) metricOfEach(name string) (values []int64) {
	e.Helper()
	for _, r := range e.set.Replicas {
		values = append(values, e.metric(r, name))
	}
	return values
}

const (
	// storeUnavailable is 1 while a replica does not call Redis.
	storeUnavailable = "eventquota_store_unavailable"
	// storeErrors counts failed calls of the store.
	storeErrors = "eventquota_store_errors_total"
	// decisionsWithoutStore counts the local decisions of a replica.
	decisionsWithoutStore = "eventquota_decisions_without_store_total"
	// reports counts the decisions that a replica has reported to Redis afterwards. reportsWaiting is the number of
	// registers with unreported decisions.
	reports        = "eventquota_backlog_decisions_total"
	reportsWaiting = "eventquota_backlog_entries"
)
