package e2e

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cluster"
)

// refuses waits until a replica has refused enough to know what it need not ask
// Redis about.
func (e *faultEnv) refuses(i int) {
	e.Helper()
	e.eventually("the replica has refused Events", func() (refuses bool) {
		for _, m := range e.metrics(e.set.Replicas[i])["eventquota_decisions_total"].GetMetric() {
			for _, label := range m.GetLabel() {
				refuses = refuses || label.GetValue() == "drop" && m.GetCounter().GetValue() > 50
			}
		}
		return refuses
	})
}

// holder is who holds the Lease of the settler.
func (e *faultEnv) holder() string {
	e.Helper()
	lease, err := e.client.CoordinationV1().Leases(cluster.ServiceNamespace).Get(e.Context(), "eventquota-settler", metav1.GetOptions{})
	e.must(err)
	return *lease.Spec.HolderIdentity
}

// rests waits until a replica, which is out of the Service, gets no more calls
// and has reported to Redis what it refused by itself.
func (e *faultEnv) rests(i int) {
	e.Helper()
	calls, since := int64(-1), time.Now()
	e.eventually("a replica out of the Service gets no calls", func() bool {
		if now := e.metric(e.set.Replicas[i], "eventquota_decisions_total"); now != calls {
			calls, since = now, time.Now()
		}
		return time.Since(since) > refusalsHeld
	})
}

// decidedAlone holds that replicas have decided without Redis, and reported that to it.
func (e *faultEnv) decidedAlone() {
	e.Helper()
	alone, reported := e.each(withoutStore), e.each(reports)
	e.Logf("without Redis the replicas decided %v times, and reported %v decisions", alone, reported)
	for i := range alone {
		if alone[i] == 0 || reported[i] == 0 {
			e.Errorf("replica %d decided %d times without Redis and reported %d decisions, want both", i, alone[i], reported[i])
		}
	}
}

// outcomes are how many reviews of each outcome the replicas have answered.
func (e *faultEnv) outcomes() (each []map[string]int64) {
	e.Helper()
	for _, r := range e.set.Replicas {
		n := map[string]int64{}
		for _, m := range e.metrics(r)["eventquota_decisions_total"].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "outcome" {
					n[label.GetValue()] += int64(m.GetCounter().GetValue())
				}
			}
		}
		each = append(each, n)
	}
	return each
}
