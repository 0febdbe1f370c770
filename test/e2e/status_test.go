package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// statusInterval is the minimum time between two writes of one policy's status.
const (
	statusInterval = 30 * time.Second
	statusFlag     = "--status-interval=30s"
)

// statusPolicies is a template for a policy of statusNamespace: name, action, mode and reason.
const statusNamespace, statusPolicies = "watched", `
kind: ClusterEventPolicy
metadata: {name: %s}
spec:
  {action: %s, mode: %s, match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: watched}}, conditions: [{name: reason, expression: event.reason == '%s'}]}}`

// TestStatus tests the content of policies' status and how often it is written.
func TestStatus(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{APIServerFlags: map[string]string{"audit-policy-file": statusAudit(t)}})
	e := newEnvOn(t, c, statusFlag)
	e.namespace(statusNamespace)
	e.waitPoliciesGovern(statusNamespace)
	e.apply(fmt.Sprintf(statusPolicies, "brake", "Drop", "Enforce", "Noise"))
	e.apply(fmt.Sprintf(statusPolicies, "limit", "Limit", "Enforce", "Steady"))
	e.apply(fmt.Sprintf(statusPolicies, "audited", "Drop", "Audit", "Quiet"))
	e.apply(strings.Replace(fmt.Sprintf(statusPolicies, "broken", "Drop", "Enforce", "X"), "event.reason == 'X'", "event.reason ==", 1))
	for name, want := range map[string]string{
		"brake": "True Valid, True InForce", "limit": "True Valid, True InForce",
		"audited": "True Valid, True Audited", "broken": "False Invalid, False NeverValid",
	} {
		applied := time.Now()
		e.eventually(name+" is "+want, func() bool { return e.conditions(name, 1) == want })
		e.Logf("%s: %s after %v", name, want, time.Since(applied).Round(time.Millisecond))
	}
	broken := meta.FindStatusCondition(e.status("broken").Conditions, v1alpha1.ConditionAccepted)
	if !strings.Contains(broken.Message, "spec.match.conditions[0].expression") || !strings.Contains(broken.Message, "column 16: a value is expected after") {
		t.Errorf("the status reports an invalid condition as %q, want the field and the position", broken.Message)
	}

	const objects = 7
	for i := range objects {
		for range i + 1 {
			e.writeReason("Noise", fmt.Sprint("web-", i), isDropped)
		}
	}
	for i := range 3 {
		e.writeReason("Steady", fmt.Sprint("web-", i), isStored)
		e.writeReason("Steady", fmt.Sprint("web-", i), isMerged)
		e.writeReason("Quiet", fmt.Sprint("web-", i), isStored)
	}
	dropped := int64(objects * (objects + 1) / 2)
	e.eventually("the status has the counts", func() bool {
		return e.total("brake") == v1alpha1.Counts{Matched: dropped, Dropped: dropped} &&
			e.total("limit") == v1alpha1.Counts{Matched: 6, Admitted: 3, Merged: 3} &&
			e.total("audited") == v1alpha1.Counts{Matched: 3, Dropped: 3}
	})
	// After an invalid change, the previous policy stays in force.
	e.apply(strings.Replace(fmt.Sprintf(statusPolicies, "brake", "Drop", "Enforce", "X"), "event.reason == 'X'", "nothing", 1))
	e.eventually("the status reports the invalid change", func() bool { return e.conditions("brake", 2) == "False Invalid, False PreviousGenerationInForce" })
	e.writeReason("Noise", "web-6", isDropped)

	dropped++
	e.eventually("the status counts the last Event", func() bool { return e.total("brake").Dropped == dropped })
	var top []string
	for _, o := range e.status("brake").TopSources {
		top = append(top, fmt.Sprintf("%s %s %d", o.Source, o.InvolvedObject, o.Dropped))
	}
	want := []string{"kubelet/node-1 Pod " + statusNamespace + "/web-6 1"} // since the previous status update
	if diff := cmp.Diff(want, top); diff != "" {
		t.Errorf("top sources (-want +got):\n%s", diff)
	}
	if s := e.status("broken"); s.Total != nil {
		t.Errorf("a policy that was never in force has counts: %+v", s.Total)
	}
	wantTable := []string{
		"audited Mode=Audit Matched=3 Merged=0 Dropped=3", fmt.Sprintf("brake Mode=Enforce Matched=%d Merged=0 Dropped=%[1]d", dropped),
		"broken Mode=Enforce Matched=<nil> Merged=<nil> Dropped=<nil>", "emergency-brake Mode=Disabled Matched=0 Merged=0 Dropped=0", "limit Mode=Enforce Matched=6 Merged=3 Dropped=0",
		"mark Mode=Disabled Matched=0 Merged=0 Dropped=0", // from waitPoliciesGovern
	}
	if diff := cmp.Diff(wantTable, e.table()); diff != "" {
		t.Errorf("kubectl get (-want +got):\n%s", diff)
	}
	e.checkStatusWriteRate()
}

// writeReason writes an Event of a reason about a Pod, and checks the answer.
func (e *env) writeReason(reason, pod string, answered func(error) bool) {
	e.Helper()
	event := coreEvent(statusNamespace, "", pod, "the same "+reason)
	event.GenerateName, event.Reason, event.Type = "e-", reason, corev1.EventTypeNormal
	if _, err := e.client.CoreV1().Events(statusNamespace).Create(e.Context(), event, metav1.CreateOptions{}); !answered(err) {
		e.Errorf("%s about %s: %v", reason, pod, err)
	}
}

// status returns the status of a ClusterEventPolicy.
func (e *env) status(name string) *v1alpha1.Status {
	e.Helper()
	client, err := dynamic.NewForConfig(e.config)
	e.must(err)
	u, err := client.Resource(v1alpha1.Resources()[v1alpha1.KindClusterEventPolicy]).Get(e.Context(), name, metav1.GetOptions{})
	e.must(err)
	var p v1alpha1.ClusterEventPolicy
	e.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p))
	return &p.Status
}

// conditions returns status and reason of Accepted and Ready for a generation. It is empty while the status is about
// another generation.
func (e *env) conditions(name string, generation int64) string {
	e.Helper()
	s := e.status(name)
	var all []string
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil && c.ObservedGeneration == generation && s.ObservedGeneration == generation {
			all = append(all, fmt.Sprintf("%s %s", c.Status, c.Reason))
		}
	}
	return strings.Join(all, ", ")
}

// total returns the total counts of a policy, without Since.
func (e *env) total(name string) (c v1alpha1.Counts) {
	e.Helper()
	if s := e.status(name); s.Total != nil {
		c = *s.Total
	}
	c.Since = nil
	return c
}

// table returns the output of kubectl get.
func (e *env) table() (rows []string) {
	e.Helper()
	client, err := rest.HTTPClientFor(e.config)
	e.must(err)
	request, err := http.NewRequestWithContext(e.Context(), http.MethodGet,
		strings.TrimSuffix(e.config.Host, "/")+"/apis/eventquota.io/v1alpha1/clustereventpolicies", http.NoBody)
	e.must(err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	e.must(err)
	defer response.Body.Close()
	var table metav1.Table
	e.must(json.NewDecoder(response.Body).Decode(&table))
	column := func(name string) int {
		return slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == name })
	}
	for _, row := range table.Rows {
		cell := func(name string) any { return row.Cells[column(name)] }
		rows = append(rows, fmt.Sprintf("%v Mode=%v Matched=%v Merged=%v Dropped=%v",
			cell("Name"), cell("Mode"), cell("Matched"), cell("Merged"), cell("Dropped")))
	}
	return rows
}

// statusAudit returns the path of an audit policy that logs status writes.
func statusAudit(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit-policy.yaml")
	err := os.WriteFile(path, []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, resources: [{group: eventquota.io, resources: [eventpolicies/status, clustereventpolicies/status, eventquotas/status, clustereventquotas/status]}]}
- {level: None}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// checkStatusWriteRate checks that each status was written, and none twice within an interval.
func (e *env) checkStatusWriteRate() {
	e.Helper()
	content, err := os.ReadFile(e.cluster.AuditLog)
	e.must(err)
	last := map[string]time.Time{}
	for line := range strings.Lines(string(content)) {
		var entry struct {
			RequestReceivedTimestamp metav1.MicroTime
			User                     struct{ Username string }
			ObjectRef                struct{ Namespace, Name string }
			ResponseStatus           struct{ Code int }
		}
		e.must(json.Unmarshal([]byte(line), &entry))
		name, at := entry.ObjectRef.Name, entry.RequestReceivedTimestamp.Time
		if entry.User.Username != replica.User || entry.ResponseStatus.Code != http.StatusOK {
			e.Errorf("a status write of %s by %s got status code %d", name, entry.User.Username, entry.ResponseStatus.Code)
		}
		if before, again := last[name]; again && at.Sub(before) < statusInterval {
			e.Errorf("the status of %s was written again after %v, want at least %v", name, at.Sub(before), statusInterval)
		}
		last[name] = at
	}
	if len(last) < 4 {
		e.Errorf("statuses of %d policies were written, want at least 4", len(last))
	}
}

// testStatusOfReplicas checks that a status counts the decisions of all replicas, and continues to do so after the
// replica that writes it is killed.
func (e *setEnv) testStatusOfReplicas() {
	e.Helper()
	e.namespace(statusNamespace)
	e.waitPoliciesGovern(statusNamespace)
	e.apply(fmt.Sprintf(statusPolicies, "brake", "Drop", "Enforce", "Noise"))
	before := e.decisions("mutate")
	// Replicas that do not have the policy yet apply another one.
	var want int64
	e.eventually("every replica has the policy", func() bool {
		n := e.writeRefused(30, 0)
		want += n
		return n == 30
	})
	want += e.writeRefused(300, 3)
	if each := difference(e.decisions("mutate"), before); slices.Min(each) == 0 {
		e.Errorf("/mutate was called %v times, want some at each replica", each)
	}
	e.Logf("%d Events were dropped", want)
	var got v1alpha1.Counts
	e.Cleanup(func() { e.Logf("total in the end: %+v", got) })
	e.eventually("the status counts the drops of all replicas", func() bool {
		got = e.total("brake")
		return got.Dropped == want
	})
	since := e.status("brake").Total.Since

	leader, err := e.set.Leader(e.Context())
	e.must(err)
	if leader < 0 {
		e.Fatal("no replica leads")
	}
	killed := time.Now()
	e.must(e.set.Kill(e.Context(), leader))
	e.apply(fmt.Sprintf(statusPolicies, "other", "Drop", "Enforce", "Other"))
	e.eventually("the next leader writes", func() bool { return e.conditions("other", 1) != "" })
	want += e.writeRefused(60, 3)
	e.eventually("the next leader counts further drops", func() bool {
		got = e.total("brake")
		return got.Dropped >= want
	})
	e.Logf("the next leader updated the status after %v", time.Since(killed).Round(time.Second))
	if last := e.status("brake").Total; last.Dropped != want || !last.Since.Equal(since) {
		e.Errorf("%d dropped since %v, want %d since %v", last.Dropped, last.Since, want, since)
	}
	e.must(e.set.Restart(e.Context(), leader))
}

// writeRefused writes n Events concurrently, and returns how many the policy brake dropped.
func (e *setEnv) writeRefused(n, first int) int64 {
	e.Helper()
	answers := make([]error, n)
	var writers errgroup.Group
	writers.SetLimit(8)
	for i := range n {
		writers.Go(func() error {
			event := coreEvent(statusNamespace, "", fmt.Sprint("web-", first+i%5), fmt.Sprint("noise ", i))
			event.GenerateName, event.Reason, event.Type = "e-", "Noise", corev1.EventTypeNormal
			_, answers[i] = e.client.CoreV1().Events(statusNamespace).Create(e.Context(), event, metav1.CreateOptions{})
			return nil
		})
	}
	e.must(writers.Wait())
	dropped := int64(0)
	for _, err := range answers {
		if isDroppedBy("ClusterEventPolicy brake")(err) {
			dropped++
		}
	}
	return dropped
}
