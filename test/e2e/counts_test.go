package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/storm"
)

// checkCountsAgree checks I1 and I2 for a storm over three replicas. It also checks that metrics, the status of the
// policy, eventquota top, notices and stored Events agree.
func checkCountsAgree(e *faultEnv) *faultyStorm {
	s := e.newStorm()
	e.waitPoliciesGovern(e.namespace("elsewhere"))
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: agreed}\nspec: {match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: " + statusNamespace + "}}}}")
	// mark and agreed are written here. The quota ceiling and the emergency brake are installed.
	e.eventually("every replica has all policies and quotas", func() bool { return slices.Min(e.metricOfEach("eventquota_policies")) == 4 })
	begun := time.Now()
	_, err := storm.Storm{
		Namespace: statusNamespace, Pods: 4, Events: 120, Repeating: 2, Similar: 2, Series: 2, Reasons: 3,
	}.Run(e.Context(), e.config)
	e.must(err)
	e.checkAllTookPart("mutate")
	e.checkNoneFailed()
	sent, again := e.callsSince(begun)
	e.Logf("clients sent %+v; up to %d of the admitted or merged Events were decided twice", sent, again)
	if sent.Admitted == 0 || sent.Merged == 0 || sent.Dropped == 0 {
		e.Errorf("clients sent %+v, want some Events of each outcome", sent)
	}
	e.waitIdle()

	metrics := e.decided("agreed")
	if twice := metrics.Admitted - sent.Admitted + metrics.Merged - sent.Merged; metrics.Dropped != sent.Dropped || twice < 0 || twice > again {
		e.Errorf("metrics count %+v, want the %+v that clients sent, plus up to %d admitted or merged Events", metrics, sent, again)
	}
	var status v1alpha1.Counts
	e.eventually("the status counts all decisions", func() bool {
		status = e.total("agreed")
		return status.Matched == metrics.Admitted+metrics.Merged+metrics.Dropped
	})
	if diff := cmp.Diff(metrics, callCounts{status.Admitted, status.Merged, status.Dropped}); diff != "" {
		e.Errorf("status of the policy (-metrics +status):\n%s", diff)
	}
	if diff := cmp.Diff(metrics, e.top("policy", "agreed")); diff != "" {
		e.Errorf("eventquota top (-metrics +top):\n%s", diff)
	}
	if notices := e.noticedDrops(); notices != sent.Dropped {
		e.Errorf("notices report %d dropped Events, want %d", notices, sent.Dropped)
	}
	e.checkWriteInterval(begun)
	return s
}

// callCounts counts Event writes by their outcome.
type callCounts struct{ Admitted, Merged, Dropped int64 }

// callsSince counts the outcomes of calls since a time, by the API server's answers. again counts the calls that may
// have been decided twice: PATCHes that conflicted with a write of the settler, because the API server calls the
// webhook again after a conflict.
func (e *faultEnv) callsSince(begun time.Time) (sent callCounts, again int64) {
	e.Helper()
	written := map[string][]auditCall{}
	for _, c := range e.callsOf(statusNamespace, func(c auditCall) bool { return c.bySettler }) {
		written[c.name] = append(written[c.name], c)
	}
	for _, c := range e.auditCalls(statusNamespace) {
		switch {
		case c.begun.Before(begun):
			continue
		case c.dropped:
			sent.Dropped++
		case c.merged:
			sent.Merged++
		case c.code/100 == 2:
			sent.Admitted++
		}
		for _, w := range written[c.name] {
			if c.origin == "" && !w.begun.After(c.ended) && !w.ended.Before(c.begun) {
				again++
			}
		}
	}
	return sent, again
}

// decided returns the decisions of a policy of statusNamespace, by the metrics of all replicas.
func (e *setEnv) decided(policy string) (sum callCounts) {
	e.Helper()
	for _, r := range e.set.Replicas {
		for _, m := range e.values(r, "eventquota_events_total") {
			labels := cluster.LabelsOf(m)
			if labels["event_namespace"] != statusNamespace || !strings.HasSuffix(labels["policy"], policy) {
				continue
			}
			n := int64(m.GetCounter().GetValue())
			switch labels["outcome"] {
			case "admit", "aggregate":
				sum.Admitted += n
			case "merge":
				sum.Merged += n
			case "drop":
				sum.Dropped += n
			default:
				e.Errorf("outcome %q of %d Events, want admit, aggregate, merge or drop", labels["outcome"], n)
			}
		}
	}
	return sum
}

// top returns the row of eventquota top whose name ends with name. All replicas must answer.
func (e *faultEnv) top(by, name string) (row callCounts) {
	e.Helper()
	endpoint := strings.TrimSuffix(e.set.Replicas[0].MetricsURL, "/metrics")
	out, err := exec.CommandContext(e.Context(), e.program(), "top", "--interval=0", "--output=json", "--by="+by, "--endpoint="+endpoint).Output()
	e.must(err)
	var output struct {
		Replicas []json.RawMessage
		Rows     []struct {
			Name                      string
			Admitted, Merged, Dropped int64
		}
	}
	e.must(json.Unmarshal(out, &output))
	if len(output.Replicas) != len(e.set.Replicas) {
		e.Errorf("eventquota top shows %d replicas, want %d", len(output.Replicas), len(e.set.Replicas))
	}
	for _, r := range output.Rows {
		if strings.HasSuffix(r.Name, name) {
			return callCounts{r.Admitted, r.Merged, r.Dropped}
		}
	}
	e.Errorf("eventquota top has no %s %s:\n%s", by, name, out)
	return row
}

// noticedDrops returns how many dropped Events the notices of statusNamespace report.
func (e *setEnv) noticedDrops() (n int64) {
	e.Helper()
	for _, event := range e.stored(statusNamespace) {
		if settler.IsNotice(&event) {
			n += occurrences(&event)
		}
	}
	return n
}
