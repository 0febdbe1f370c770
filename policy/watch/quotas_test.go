package watch_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy/watch"
)

const limit = "limits: [{name: all, burst: 1, tokens: 1}]"

// limits are the quotas that limit the Events of a namespace.
func limits(c *watch.Cache, namespace string) (all []string) {
	g := c.InForce().For(context.Background(), namespace, &corev1.Event{}, nil)
	for q := range g.Limits() {
		all = append(all, q.Name)
	}
	return all
}

func TestQuotasComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ownQuotas.Add(quota(t, "a", "same", 1, limit))
	r.clusterQuotas.Add(quota(t, "", "same", 1, limit))
	r.own.Add(object(t, "a", "same", 1, ""))
	r.start(t)
	want := func(names ...string) {
		t.Helper()
		eventually(t, "as wanted", func() bool { return slices.Equal(limits(r.Cache, "a"), names) })
	}
	want("ClusterEventQuota same", "EventQuota a/same")
	r.wantGoverns(t, "a", "EventPolicy a/same@1")
	r.ownQuotas.Modify(quota(t, "a", "same", 2, "mode: Disabled, "+limit))
	want("ClusterEventQuota same")
	r.clusterQuotas.Delete(quota(t, "", "same", 1, limit))
	want()
	r.own.Delete(object(t, "a", "same", 1, ""))
	r.wantGoverns(t, "a", "default@0")
	if left := r.Reports(); len(left) != 1 || left[0].Kind != "EventQuota" {
		t.Errorf("reports %v", left)
	}
}
