package e2e

import "testing"

// TestOneReplica holds what a replica without Redis does: when policies change, with single writes, and when it goes
// away and comes back. What it does with the examples is TestExampleScenarios.
func TestOneReplica(t *testing.T) {
	if !isolated(t) {
		return
	}
	e := newEnv(t, clusterLogOptions())
	e.waitPoliciesGovern(e.namespace("known"))
	t.Run("the last valid version of a policy goes on governing", func(t *testing.T) { e.forSubtest(t).checkLastValidVersionIsKept() })
	t.Run("a change is in force within a second and as a whole, at 250 Events a second", func(t *testing.T) {
		e.forSubtest(t).testAtomicVersionChanges()
	})
	t.Run("writes", func(t *testing.T) { e.forSubtest(t).testSingleWrites() })
	e.testWebhookRestart()
	if stored := e.stored("dry"); len(stored) != 1 || occurrences(&stored[0]) != 1 {
		t.Errorf("after one Event and many dry runs these are stored, want it with a count of 1: %+v", stored)
	}
}
