package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/storm"
)

const (
	// refusalsHeld is how long a replica may hold what it refused by itself: the
	// 200 ms between two times that it tells Redis, and what that takes on a
	// busy machine.
	refusalsHeld = time.Second
	// replicatedWithin is how long Redis may take to tell its replicas.
	replicatedWithin = time.Second
	// beginAfter is how many reviews are answered when a storm is in its midst.
	beginAfter = 1500
	// leastAfter is how many calls of a storm come after a fault, at least.
	leastAfter = 500
)

// faultEnv is three replicas that share a Redis.
type faultEnv struct {
	*setEnv
	redis faultyRedis
}

func newFaultEnv(t *testing.T, r faultyRedis) *faultEnv {
	t.Helper()
	flags := append([]string{
		// Endpoints that come and go get their share of the calls at once.
		"--calls-per-connection=20",
		// Redis is away only when the test makes it so, not as the machine is busy.
		"--store-deadline=500ms",
		// What is claimed is in hand for some seconds.
		"--settle-rate=40",
	}, r.flags()...)
	return &faultEnv{setEnv: newSetEnv(t, 3, flags...), redis: r}
}

// faultyStorm is a storm in which something fails.
type faultyStorm struct {
	*faultEnv
	namespace string
	over      chan error
	begun     time.Time
	broken    time.Time // when something failed
}

// begin begins a storm, and returns when it is in its midst.
func (e *faultEnv) begin() *faultyStorm {
	e.Helper()
	s := &faultyStorm{faultEnv: e, namespace: e.namespace("storm"), over: make(chan error, 1), begun: time.Now()}
	go func() {
		_, err := storm.Storm{
			Namespace: s.namespace, Pods: 30, Events: storm.MaxEvents,
			Repeating: 4, Similar: 4, Series: 2, Reasons: 4,
		}.Run(e.Context(), e.config)
		s.over <- err
	}()
	e.eventually("the storm is in its midst", func() bool { return e.answered() > beginAfter })
	return s
}

// end waits until the storm is over, which is to go on after the fault, and all
// that replicas and Redis know is told.
func (s *faultyStorm) end() (calls []auditCall) {
	s.Helper()
	s.must(<-s.over)
	calls = s.auditCalls(s.namespace)
	after := 0
	for _, c := range calls {
		if c.begun.After(s.broken) {
			after++
		}
	}
	s.Logf("the storm took %s; %d of its %d calls came after the fault", time.Since(s.begun).Round(time.Second), after, len(calls))
	if after < leastAfter {
		s.Errorf("only %d calls came after the fault, want %d", after, leastAfter)
	}
	begun := time.Now()
	s.quiet()
	s.Logf("answers of each replica: %v", s.outcomes())
	s.Logf("all was settled %s later", time.Since(begun).Round(time.Second))
	return calls
}

// holds holds that no more occurrences than those are missing, or told twice.
func (s *faultyStorm) holds(missing, twice int64) {
	s.Helper()
	for i := range s.set.Replicas {
		s.must(s.set.Stop(s.Context(), i)) // it settles what it holds itself
	}
	twice += collided(s.auditCalls(s.namespace)) // which are counted as one
	sent, told, late := s.audit().Occurrences(), s.told(), s.late()
	s.Logf("%d occurrences reached the API server, %d are told and %d will be; up to %d may be missing, %d told twice",
		sent, told, late, missing, twice)
	if told += late; told < sent-missing || told > sent+twice {
		s.Errorf("stored Events and notices tell of %d occurrences, want the %d that reached the API server, or up to %d less or %d more",
			told, sent, missing, twice)
	}
	if told != sent {
		s.Logf("where told and sent differ:\n%s", strings.Join(s.differences(s.namespace, s.auditCalls(s.namespace)), "\n"))
	}
}

// answered is how many reviews the replicas have answered that run now.
func (e *faultEnv) answered() (n int64) {
	e.Helper()
	for _, each := range e.each("eventquota_decisions_total") {
		n += each
	}
	return n
}

// leader is the replica that settles for all.
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
