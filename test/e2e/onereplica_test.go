package e2e

import "testing"

// TestOneReplica tests one replica without Redis: policy changes, single writes, the end of an emergency brake and restarts.
// TestExampleScenarios tests it with the examples.
func TestOneReplica(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.waitPoliciesGovern(e.namespace("known"))
	t.Run("the last valid version of a policy stays in force", func(t *testing.T) { e.forSubtest(t).checkLastValidVersionIsKept() })
	t.Run("a change is in force within a second and as a whole, at 250 Events a second", func(t *testing.T) {
		e.forSubtest(t).testAtomicVersionChanges()
	})
	t.Run("writes", func(t *testing.T) { e.forSubtest(t).testSingleWrites() })
	t.Run("an emergency brake ends by itself", func(t *testing.T) { e.forSubtest(t).testBrakeEndsByItself() })
	e.testWebhookRestart()
	if stored := e.stored("dry"); len(stored) != 1 || occurrences(&stored[0]) != 1 {
		t.Errorf("stored after one Event and many dry runs: %+v, want one Event with a count of 1", stored)
	}
}
