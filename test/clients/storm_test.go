package clients

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// occurrencesEach is the number of occurrences about one object. The recorder of core/v1 drops the 26th itself.
	occurrencesEach = 24
	// quotaBurst is the number of Events that a quota lets through, of quotaObjects times quotaRepeats occurrences.
	quotaBurst, quotaObjects, quotaRepeats = 2, 5, 3
	// parts is the number of equal parts of a storm. A fault lasts for the second one.
	parts = 3
	// storedWithin bounds the wait until all counts are written, on a busy machine.
	storedWithin = 30 * time.Second
)

// scenario is a kind of storm.
type scenario struct {
	name        string
	occurrences []occurrence
	limited     bool // its namespace has a quota
}

// scenarios returns the storms of each client.
func scenarios() []scenario {
	repeats, similar, quota := scenario{name: "repeats"}, scenario{name: "similar"}, scenario{name: "quota", limited: true}
	for i := range occurrencesEach {
		repeats.occurrences = append(repeats.occurrences, occurrence{"web", "BackOff", "back-off restarting", i})
		similar.occurrences = append(similar.occurrences, occurrence{"web", "Failed", fmt.Sprint("cannot sync item ", 100000+i), i})
	}
	for i := range quotaObjects * quotaRepeats {
		quota.occurrences = append(quota.occurrences, occurrence{fmt.Sprint("web-", i/quotaRepeats), "Started", "started", i})
	}
	return []scenario{repeats, similar, quota}
}

// storm is one of all clients at once.
type storm struct {
	*session
	name    string // prefix of its namespaces
	running []runningClient
}

type runningClient struct {
	driver
	client
}

// newStorm starts the clients and makes their namespaces.
func (e *env) newStorm(name string, with func(driver) bool) *storm {
	e.Helper()
	s := &storm{session: &session{env: e, observed: &observations{}, sleeps: &sleeps{}}, name: name + "-" + installation(e.installed)}
	var starts errgroup.Group
	for _, d := range drivers() {
		if with(d) {
			s.running = append(s.running, runningClient{driver: d})
		}
	}
	for i := range s.running {
		c := &s.running[i]
		for _, sc := range scenarios() {
			if namespace := e.namespace(s.namespaceOf(c.driver, sc)); sc.limited {
				e.limit(namespace)
			}
		}
		starts.Go(func() (err error) {
			c.client, err = c.start(s.session)
			return err
		})
	}
	e.must(starts.Wait())
	e.waitRules()
	return s
}

func (s *storm) namespaceOf(d driver, sc scenario) string {
	return s.name + "-" + d.name + "-" + sc.name
}

// publish publishes a part of the storm, 0 to parts-1.
func (s *storm) publish(part int) error {
	var all errgroup.Group
	for _, c := range s.running {
		all.Go(func() error {
			for _, sc := range scenarios() {
				n := len(sc.occurrences) / parts
				if err := c.publish(s.Context(), s.namespaceOf(c.driver, sc), sc.occurrences[part*n:(part+1)*n]); err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, sc.name, err)
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// result is the result of a client in one scenario.
type result struct {
	driver
	scenario  string
	namespace string
	got       answers
	published int // occurrences
}

// results returns the results in the order of drivers and scenarios.
func (s *storm) results() (all []result) {
	s.Helper()
	s.waitRecorders()
	given := s.answers()
	for _, c := range s.running {
		for _, sc := range scenarios() {
			r := result{driver: c.driver, scenario: sc.name, namespace: s.namespaceOf(c.driver, sc)}
			r.got = given[r.namespace]
			r.published = len(sc.occurrences) - s.observed.lostIn(r.namespace)
			all = append(all, r)
		}
	}
	return all
}

// check checks a storm that is over: requests, reactions and stored counts.
func (s *storm) check() []result {
	s.Helper()
	results := s.results()
	for _, r := range results {
		about := s.name + ": " + r.name + ", " + r.scenario
		if n := r.got.finals(); n != r.published {
			s.Errorf("%s: the webhook answered %d requests about %d occurrences, want one each: %s", about, n, r.published, r.got)
		}
		observed := s.observed.take(r.namespace)
		maps.Copy(observed, recorderLog.take(r.namespace))
		if want := r.got.reactions(r.stated()); !maps.Equal(observed, want) {
			s.Errorf("%s: the client's reactions to %s were %v, want %v", about, r.got, observed, want)
		}
	}
	if n := s.sleeps.n.Load(); n != 0 {
		s.Errorf("%s: plays waited %d times before they sent a request again, want 0", s.name, n)
	}
	if logged := recorderLog.take(""); len(logged) > 0 {
		s.Errorf("recorders logged errors about no Event: %v", logged)
	}
	return results
}

// waitStored waits until all occurrences are stored, or storedWithin has passed.
func (s *storm) waitStored(results []result) {
	s.Helper()
	begun := time.Now()
	for time.Since(begun) < storedWithin {
		if stored := s.stored(); !slices.ContainsFunc(results, func(r result) bool { return stored[r.namespace] != int64(r.published) }) {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
}

// checkStored checks that the stored Events and notices report what was published. The replicas must have stopped.
func (s *storm) checkStored(results []result) {
	s.Helper()
	stored := s.stored()
	for _, r := range results {
		if stored[r.namespace] != int64(r.published) {
			s.Errorf("%s: %s, %s: stored Events and notices report %d occurrences, want the %d that were published: %s\n%s", s.name, r.name, r.scenario,
				stored[r.namespace], r.published, r.got, s.describe(r.namespace))
		}
		s.Logf("%-14s %-8s published %d, reported %d: %s", r.name, r.scenario, r.published, stored[r.namespace], r.got)
	}
}

// everyClient and quickClients select drivers.
func everyClient(driver) bool    { return true }
func quickClients(d driver) bool { return !d.once }

// TestOneReplica runs all clients with one replica, which keeps its counts in memory.
func TestOneReplica(t *testing.T) {
	t.Parallel()
	for _, component := range []string{"", validatingOnly} {
		t.Run(installation(component), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, component, 1)
			s := e.newStorm("one", everyClient)
			for part := range parts {
				e.must(s.publish(part))
			}
			results := s.check()
			s.checkAnswers(results)
			e.checkCalls(0)
			e.must(e.set.Replicas[0].Stop()) // it writes all counts
			s.checkStored(results)
		})
	}
}

// checkAnswers checks that each client has got the answers that its driver states.
func (s *storm) checkAnswers(results []result) {
	s.Helper()
	for _, r := range results {
		if r.got.conflicts() > 0 {
			continue // it reads the Event again
		}
		if got, want := r.got.String(), r.want[r.scenario]; got != want {
			s.Errorf("%s: %s, %s: the API server answered %q, want %q", s.name, r.name, r.scenario, got, want)
		}
	}
}

// installation returns the name of a component for tests and namespaces.
func installation(component string) string {
	return cmp.Or(map[string]string{validatingOnly: "validating"}[component], "mutating")
}
