package e2e

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/storm"
)

// minFairShare is the least part of the calls that each of 3 replicas must get.
//
// A test makes 150 connections or more. Each reaches a replica with a probability of 1/3, and ends after any call with the same
// probability. So one replica gets less by chance in one of five million tests.
const minFairShare = 0.1

// spreadCalls is the number of calls that make 150 connections.
const spreadCalls = 600

// spreadRate is the number of requests a second by recorders while replicas are replaced. Nearly each call needs a new connection here, so
// this is the load of a much faster storm.
const spreadRate = 50

// TestCallsAreSpreadOverReplicas checks that calls to a Service are spread over its replicas, because connections
// end, and that no call fails as a result.
func TestCallsAreSpreadOverReplicas(t *testing.T) {
	t.Parallel()
	// The shutdown delay is the shipped one: a busy API server may need more than half a second to learn that a
	// replica stops.
	e := newSetEnv(t, 3, "--calls-per-connection=4", "--shutdown-delay=5s")
	namespace := e.namespace("spread")

	e.checkSpread("a writer that makes one call at a time", []string{"mutate"}, func() {
		e.write(namespace, spreadCalls)
	})
	e.checkSpread("a storm", []string{"mutate"}, func() { e.must(e.storm(namespace, 130)) })
	e.checkNoneFailed()

	// A rolling update during a storm, to replicas that never end a connection.
	end := e.pacedStorm(spreadRate)
	for i := range e.set.Replicas {
		e.must(e.set.Stop(t.Context(), i))
		e.must(e.set.Restart(t.Context(), i, "--calls-per-connection=0"))
	}
	e.must(end())
	e.checkNoneFailed()

	const calls = 300
	before := e.decisions("mutate")
	e.write(namespace, calls)
	each := difference(e.decisions("mutate"), before)
	slices.Sort(each)
	if !slices.Equal(each, []int64{0, 0, calls}) {
		t.Errorf("calls per replica when connections never end: %v, want all at one replica", each)
	}
	e.checkNoneFailed()
}

// checkSpread checks that each replica gets a fair share of the calls that do makes.
func (e *setEnv) checkSpread(what string, phases []string, do func()) {
	e.Helper()
	before := map[string][]int64{}
	for _, phase := range phases {
		before[phase] = e.decisions(phase)
	}
	do()
	for _, phase := range phases {
		each := difference(e.decisions(phase), before[phase])
		var all int64
		for _, n := range each {
			all += n
		}
		e.Logf("%s: /%s was called %v times", what, phase, each)
		if all < spreadCalls {
			e.Errorf("%s: /%s was called %d times, want %d or more", what, phase, all, spreadCalls)
		}
		if least := slices.Min(each); float64(least) < minFairShare*float64(all) {
			e.Errorf("%s: /%s was called %v times, want at least %.0f %% at each replica", what, phase, each, 100*minFairShare)
		}
	}
}

// storm runs a storm of client-go's recorders.
func (e *setEnv) storm(namespace string, events int) error {
	_, err := storm.Storm{
		Namespace: namespace, Pods: 3, Events: events, Repeating: 2, Similar: 2, Series: 2, Reasons: 1,
	}.Run(e.Context(), e.config)
	return err
}

// write makes n calls in each phase, one after the other.
func (e *setEnv) write(namespace string, n int) {
	e.Helper()
	for i := range n {
		event := coreEvent(namespace, fmt.Sprintf("dry-%d", i), "web", "back-off")
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		e.must(err)
	}
}

func difference(after, before []int64) []int64 {
	each := slices.Clone(after)
	for i := range each {
		each[i] -= before[i]
	}
	return each
}
