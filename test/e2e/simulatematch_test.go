package e2e

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

// TestReplayedRecordingsMatchSimulate checks I17 for each kind of recording. It replays the writes that simulate
// derives from the recording to an API server. The webhook must decide each as simulate did. The clocks of the two
// differ, so the decisions under these rules depend only on the order. Writes and decisions that simulate derives from
// an earlier recording too are not replayed again. All rules and limits must act on some write.
func TestReplayedRecordingsMatchSimulate(t *testing.T) {
	t.Parallel()
	e := newBareEnv(t)
	recordings := e.recordCluster()
	objects, err := shipped.Objects("crds")
	e.must(err)
	e.must(shipped.Apply(t.Context(), e.cluster.Config, objects))
	for _, rule := range orderedRules() {
		e.apply(rule)
	}
	earlier := replays{names: map[string]string{}, acted: map[decisionKey]bool{}}
	for _, r := range slices.Concat(recordings, samples(t), e.longEvents()) {
		t.Run(r.description, func(t *testing.T) { e.forSubtest(t).compareWithSimulate(&r, earlier) })
	}
	t.Run("all rules and limits acted", func(t *testing.T) { e.forSubtest(t).checkAllActed(earlier.acted) })
}

// replays collects the results of earlier replays.
type replays struct {
	names map[string]string // of the tests, by what simulate derived and decided
	// acted are the decisions so far, without namespaces. The rule of a refusal begins with the name of the limit.
	acted map[decisionKey]bool
}

// newBareEnv starts a cluster without a webhook.
func newBareEnv(t *testing.T) *env {
	t.Helper()
	e := &env{T: t, cluster: cluster.ForTest(t, cluster.Options{EventTTL: 24 * time.Hour})} // not shorter than the merge windows
	var err error
	e.config, _, err = e.cluster.User("writer", "system:masters")
	e.must(err)
	e.client, err = kubernetes.NewForConfig(e.config)
	e.must(err)
	return e
}

// compareWithSimulate simulates a recording under the applied rules and compares a replay with it.
func (e *env) compareWithSimulate(r *recording, earlier replays) {
	e.Helper()
	entries := r.entries(e.T)
	created := map[string]bool{}
	for _, flavor := range flavors() {
		for _, one := range entries[flavor] {
			if !created[one.namespace] {
				created[one.namespace] = true
				e.ensureNamespace(one.namespace, flavor)
			}
		}
	}
	trace, err := simulate.Read(e.Context(), r.sources(), simulate.Exempt{Users: []string{replica.User}})
	e.must(err)
	defer trace.Close()
	if in := &trace.Input; in.Broken > 0 || len(in.Unknown) > 0 || in.TimesShifted > 0 {
		e.Errorf("the recording was read as %+v, want nothing broken, unknown or shifted", in)
	}
	for _, bound := range trace.Input.Bounds() {
		e.Run(cmp.Or(string(bound), "as many")+" writes", func(t *testing.T) { e.forSubtest(t).replayAndCompare(trace, bound, entries, earlier) })
	}
}

// replayAndCompare replays the writes of a trace with a new webhook and compares its decisions with those of
// simulate.
func (e *env) replayAndCompare(trace *simulate.Trace, bound simulate.Bound, entries map[string][]entry, earlier replays) {
	e.Helper()
	known := e.rules()
	var decisions []simulate.Decision
	result, err := trace.Run(e.Context(), simulate.Options{
		Rules: simulate.Rules{Cluster: known.Cluster, Namespaces: known.KnownNamespaces()}, Bound: bound,
		Decided: func(d simulate.Decision) { decisions = append(decisions, d) },
	})
	e.must(err)
	text := e.comparable(decisions)
	if same, ok := earlier.names[text]; ok {
		e.Logf("simulate derives the writes of %s and decides them alike", same)
		return
	}
	earlier.names[text] = e.Name()

	end := e.startFresh()
	defer end()
	before := e.decisionCounts()
	replay, different, outcomes := newReplay(e, entries, decisions), 0, map[admission.Outcome]int{}
	want := map[decisionKey]int64{}
	for i := range decisions {
		d := &decisions[i]
		answer := replay.answer(d)
		if want := expectedAnswer(d, answer); answer != want {
			e.Errorf("decision %d, %s %s/%s of line %d: the webhook answered %q, simulate says %q", i, d.Verb, d.Namespace, d.Name, d.Line, answer, want)
			if different++; different == 20 {
				e.Fatal("too many differences")
			}
		}
		outcomes[d.Outcome]++
		want[decisionKey{d.Namespace, cmp.Or(d.Rule, d.Policy), d.Outcome}]++
		earlier.acted[decisionKey{rule: cmp.Or(d.String(), d.Policy), outcome: d.Outcome}] = true
		if d.Audited != nil {
			earlier.acted[decisionKey{rule: d.Audited.String(), outcome: d.Audited.Outcome}] = true
			want[decisionKey{"", inAudit, d.Audited.Outcome}]++
		}
	}
	e.Logf("%d of %d decisions agree: %v", len(decisions)-different, len(decisions), outcomes)
	for _, o := range []admission.Outcome{admission.Admitted, admission.Dropped} { // the churn sample has no Events to merge
		if outcomes[o] == 0 {
			e.Errorf("no write has outcome %q, want some", o)
		}
	}
	got := e.decisionCounts()
	for by, n := range before {
		if got[by] -= n; got[by] == 0 {
			delete(got, by)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		e.Errorf("decisions (-simulate +webhook):\n%s", diff)
	}
	e.stopReplica()
	notices := int64(0)
	for _, event := range e.stored("") {
		if settler.IsNotice(&event) && event.Namespace != "probe" {
			notices++
		}
	}
	if notices != result.Notices {
		e.Errorf("%d notices are stored, simulate says %d", notices, result.Notices)
	}
}

// rules returns the rules in the cluster.
func (e *env) rules() *policyfile.Rules {
	e.Helper()
	known, err := policyfile.ReadCluster(e.Context(), e.config, "")
	e.must(err)
	if len(known.Invalid) > 0 {
		e.Fatal(known.Invalid)
	}
	return known
}

// checkAllActed checks that each limit has refused a write, or would have in mode Audit, and that each policy that merges has merged and
// combined Events. Otherwise no replay would show how these decide.
func (e *env) checkAllActed(acted map[decisionKey]bool) {
	e.Helper()
	check := func(rule string, outcome admission.Outcome) {
		e.Helper()
		if !acted[decisionKey{rule: rule, outcome: outcome}] {
			e.Errorf("%s: no write has outcome %q, want some", rule, outcome)
		}
	}
	rules := e.rules().Cluster
	for _, p := range rules.Policies {
		switch {
		case p.Match.Namespaces == nil: // it was installed with the webhook
			continue
		case p.Action == policy.Drop:
			check(simulate.Refused{Rule: p.Name}.String(), admission.Dropped)
		case p.Action == policy.Exempt:
			check(p.Name, admission.Admitted)
		case p.SpamFilter.Enabled:
			check(simulate.Refused{Rule: p.Name, Limit: "spam filter"}.String(), admission.Dropped)
		}
		if p.Action == policy.Limit && p.Merge.Enabled && p.Mode == policy.Enforce {
			check(p.Name, admission.Merged)
			check(p.Name, admission.Aggregated)
		}
	}
	for _, q := range rules.Quotas {
		for i := range q.Limits {
			if q.Match.Namespaces == nil {
				continue
			}
			check(simulate.Refused{Rule: q.Name, Limit: q.Limits[i].Name}.String(), admission.Dropped)
		}
	}
}

// expectedAnswer returns the answer that simulate expects for a write. The answer to an UPDATE does not show that it
// created an aggregate.
func expectedAnswer(d *simulate.Decision, answer string) string {
	switch d.Outcome {
	case admission.Aggregated:
		if answer == admittedAnswer && d.Verb != "create" {
			return admittedAnswer
		}
		return aggregatedAnswer
	case admission.Admitted:
		return admittedAnswer
	case simulate.Failed:
		return nameTakenAnswer
	default:
		message, _, _ := strings.Cut(d.Message, nextTokenText)
		return message
	}
}

// decisionKey identifies decisions by namespace, deciding rule and outcome.
type decisionKey struct {
	namespace, rule string
	outcome         admission.Outcome
}

// inAudit stands for all rules in mode Audit in all namespaces.
const inAudit = "mode Audit"

// decisionCounts returns how many Events the webhook has decided, by key.
func (e *env) decisionCounts() map[decisionKey]int64 {
	e.Helper()
	all := map[decisionKey]int64{}
	for metric, rule := range map[string]string{"eventquota_events_total": "", "eventquota_audited_decisions_total": inAudit} {
		for _, m := range e.values(e.replica, metric) {
			labels := cluster.LabelsOf(m)
			by := decisionKey{labels["event_namespace"], cmp.Or(rule, labels["policy"]), admission.Outcome(labels["outcome"])}
			all[by] += int64(m.GetCounter().GetValue())
		}
	}
	return all
}

// comparable returns decisions as a text without the parts that depend on the form of the recording.
func (e *env) comparable(decisions []simulate.Decision) string {
	e.Helper()
	decisions = slices.Clone(decisions)
	for i := range decisions {
		d := &decisions[i]
		d.Time, d.Line, d.AuditID = time.Time{}, 0, ""
		d.Message, _, _ = strings.Cut(d.Message, nextTokenText)
	}
	text, err := json.Marshal(decisions)
	e.must(err)
	return string(text)
}

// startFresh deletes all Events, starts a webhook and waits until the rules are in force. end stops the webhook.
func (e *env) startFresh() (end func()) {
	e.Helper()
	namespaces, err := e.client.CoreV1().Namespaces().List(e.Context(), metav1.ListOptions{})
	e.must(err)
	for _, n := range namespaces.Items {
		e.must(e.client.CoreV1().Events(n.Name).DeleteCollection(e.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	}
	e.replica, err = replica.Start(e.Context(), e.cluster, e.program())
	e.must(err)
	e.must(e.replica.Install(e.Context()))
	e.ensureNamespace("probe", "")
	e.waitPoliciesGovern("probe")
	return func() {
		if e.Failed() {
			e.Logf("webhook's log:\n%s", e.replica.Log())
		}
		e.replica.Kill()
		e.must(e.cluster.RemoveWebhooks(e.Context()))
	}
}

// ensureNamespace creates a namespace unless it exists.
func (e *env) ensureNamespace(name, flavor string) {
	e.Helper()
	one := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if flavor != "" {
		one.Labels = map[string]string{flavorLabel: flavor}
	}
	if _, err := e.client.CoreV1().Namespaces().Create(e.Context(), one, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		e.Fatal(err)
	}
}
