package e2e

import (
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/replica"
)

// setEnv is a cluster whose API server calls several replicas through their Service.
type setEnv struct {
	*env
	set *replica.Set
}

// newSetEnv starts n replicas, which stop when the test ends.
func newSetEnv(t *testing.T, n int, flags ...string) *setEnv {
	t.Helper()
	e := &setEnv{env: &env{T: t, cluster: planes.ForTest(t)}}
	var err error
	e.set, err = replica.StartSet(t.Context(), e.cluster, e.program(), n, flags...)
	e.must(err)
	t.Cleanup(func() {
		for i, r := range e.set.Replicas {
			if t.Failed() {
				t.Logf("log of replica %d:\n%s", i, r.Log())
			}
		}
		e.set.Close()
	})
	e.must(e.set.Install(t.Context()))
	e.config, _, err = e.cluster.User("writer", "system:masters")
	e.must(err)
	e.client, err = kubernetes.NewForConfig(e.config)
	e.must(err)
	return e
}

// forSubtest returns the same cluster and replicas for a subtest.
func (e *setEnv) forSubtest(t *testing.T) *setEnv {
	t.Helper()
	return &setEnv{env: e.env.forSubtest(t), set: e.set}
}

// decisions returns the number of reviews that each replica has answered in a phase.
func (e *setEnv) decisions(phase string) (each []int64) {
	e.Helper()
	for _, r := range e.set.Replicas {
		answered, err := r.Decisions(e.Context(), "phase")
		e.must(err)
		each = append(each, answered[phase])
	}
	return each
}
