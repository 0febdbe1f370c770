package e2e

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/storm"
)

const (
	// localReportWithin bounds how long a replica may keep its local refusals: the 200 ms
	// between two reports to Redis, and the time that a report takes on a busy
	// machine.
	localReportWithin = time.Second
	// replicatedWithin bounds how long Redis may take to replicate a write.
	replicatedWithin = time.Second
	// stormStartedAfter is how many reviews are answered when a storm is in its midst.
	stormStartedAfter = 350
	// pace is how many calls a storm makes in a second, so that it goes on after a fault without being large, and
	// briefly, spamming and longer are the Events of a recorder in one of 25, of 35 and of 50 seconds.
	pace, briefly, spamming, longer = 35, 52, 75, 105
	// minCallsAfterFault is the least number of calls of a storm after a fault.
	minCallsAfterFault = 200
)

// faultEnv has replicas that share a Redis.
type faultEnv struct {
	*setEnv
	redis faultyRedis
	log   *cluster.AuditLog
	calls []auditCall // that were read of it
}

// newFaultEnv starts three replicas.
func newFaultEnv(t *testing.T, r faultyRedis) *faultEnv {
	t.Helper()
	flags := append([]string{
		// Endpoints that come and go get their share of the calls at once.
		"--calls-per-connection=20",
		// Redis is unavailable only when the test stops it, not because the machine is busy.
		"--store-deadline=500ms",
		// What is claimed is in hand for some seconds.
		"--settle-rate=40",
		statusFlag,
	}, r.flags()...)
	return newSetEnv(t, 3, flags...).withRedis(r)
}

// withRedis is e with a Redis.
func (e *setEnv) withRedis(r faultyRedis) *faultEnv {
	return &faultEnv{setEnv: e, redis: r, log: &cluster.AuditLog{Path: e.cluster.AuditLog}}
}

// fault is a failure during a storm, whose namespace has the same name.
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
	faultTime time.Time // when something failed
	// allowedMissing and told twice may be as many occurrences.
	allowedMissing, allowedDuplicates int64
}

// runFaults makes one fault after the other. In the end no more occurrences are missing, or reported twice, than the faults
// explain.
func (e *faultEnv) runFaults(faults ...fault) {
	e.Helper()
	var storms []*faultyStorm
	for _, f := range faults {
		e.Run(f.name, func(t *testing.T) {
			storms = append(storms, f.inject((&setEnv{env: e.forSubtest(t), set: e.set}).withRedis(e.redis)))
		})
	}
	for i := range e.set.Replicas {
		e.must(e.set.Stop(e.Context(), i)) // it writes its own pending counts
	}
	sent := e.audit().PerNamespace()
	for _, s := range storms {
		e.checkOccurrences(s, sent[s.namespace])
	}
}

// newStorm is one in a new namespace, which has the name of the subtest.
func (e *faultEnv) newStorm() *faultyStorm {
	e.Helper()
	return &faultyStorm{faultEnv: e, namespace: e.namespace(path.Base(e.Name()))}
}

// begin begins a storm about so many pods, of so many Events a recorder, and returns when it is in its midst.
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
	e.eventually("the storm is in its midst", func() bool { return e.answered()-before > stormStartedAfter })
	return s
}

// end waits until the storm is over, which must continue after the fault, and until all
// counts of replicas and Redis are reported.
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
		s.Errorf("only %d calls came after the fault, want %d", after, minCallsAfterFault)
	}
	begun := time.Now()
	s.waitIdle()
	s.Logf("answers of each replica: %v", s.outcomes())
	s.Logf("all was settled %s later", time.Since(begun).Round(time.Second))
	return calls
}

// allow is s with what its fault explains.
func (s *faultyStorm) allow(missing, twice int64) *faultyStorm {
	s.allowedMissing, s.allowedDuplicates = missing, twice
	return s
}

// checkOccurrences checks that no more occurrences of a storm are missing, or reported twice, than are allowed. All replicas must
// have stopped.
func (e *faultEnv) checkOccurrences(s *faultyStorm, sent int64) {
	e.Helper()
	calls := e.auditCalls(s.namespace)
	missing, twice := s.allowedMissing, s.allowedDuplicates+nameCollisions(calls) // which are counted as one
	told, late := e.reportedOccurrences(s.namespace), e.lateOccurrences(s.namespace)
	e.Logf("%s: %d occurrences reached the API server, %d are told and %d will be; up to %d may be missing, %d told twice",
		s.namespace, sent, told, late, missing, twice)
	if told += late; told < sent-missing || told > sent+twice {
		e.Errorf("%s: stored Events and notices tell of %d occurrences, want the %d that reached the API server, or up to %d less or %d more",
			s.namespace, told, sent, missing, twice)
	}
	if told != sent {
		e.Logf("where told and sent differ:\n%s", strings.Join(e.countDifferences(s.namespace, calls), "\n"))
	}
}

// answered returns how many reviews the running replicas have answered.
func (e *faultEnv) answered() (n int64) {
	e.Helper()
	for _, each := range e.metricOfEach("eventquota_decisions_total") {
		n += each
	}
	return n
}

// leader returns the replica that writes pending counts for all.
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

// faultyRedis is a Redis of any topology in which a test makes faults.
type faultyRedis struct {
	// options make a client of it.
	options redisclient.Options
	// keys are names of keys, one for each master.
	keys []string
	// master is the server that has a key.
	master func(ctx context.Context, key string) (*redistest.Server, error)
	// kill kills a master that is in use, and returns when its process has ended.
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

// flags make a replica use it.
func (r *faultyRedis) flags() []string {
	return []string{
		"--redis-addresses=" + strings.Join(r.options.Addresses, ","),
		"--redis-sentinel-master=" + r.options.SentinelMaster,
		"--redis-cluster=" + strconv.FormatBool(r.options.Cluster),
	}
}

// masters are the servers that have all there is, among them. They all run.
func (e *faultEnv) masters() (masters []*redistest.Server) {
	e.Helper()
	for _, key := range e.redis.keys {
		master, err := e.redis.master(e.Context(), key)
		e.must(err)
		masters = append(masters, master)
	}
	return masters
}

// waitReplicated waits until every master's replicas have all that it has answered
// so far, and returns how long that took.
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

// metrics returns all metrics of a replica, by name.
func (e *setEnv) metrics(r *replica.Replica) map[string]*dto.MetricFamily {
	e.Helper()
	request, err := http.NewRequestWithContext(e.Context(), http.MethodGet, r.MetricsURL, http.NoBody)
	e.must(err)
	response, err := http.DefaultClient.Do(request)
	e.must(err)
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	e.must(err)
	return families
}

// metric returns the sum of all values of a counter or gauge of a replica.
func (e *setEnv) metric(r *replica.Replica, name string) (sum int64) {
	e.Helper()
	for _, m := range e.metrics(r)[name].GetMetric() {
		sum += int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	return sum
}

// metricOfEach returns a metric of every replica.
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
	// reports is how many decisions a replica reports to Redis afterwards, and reportsWaiting for how many registers
	// some wait.
	reports        = "eventquota_backlog_decisions_total"
	reportsWaiting = "eventquota_backlog_entries"
)
