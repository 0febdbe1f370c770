package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/storm"
)

// simulatedPolicies returns the policies of TestSimulateMatchesWebhook.
func simulatedPolicies() []string {
	return []string{`
kind: ClusterEventPolicy
metadata: {name: small}
spec:
  tier: Admin
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: simulated-1}}}
  spamFilter: {burst: 5, reservePerReason: 0}
  merge: {similar: {threshold: 3}}`, `
kind: ClusterEventPolicy
metadata: {name: silence}
spec:
  match:
    controllers: [noisy-operator]
    conditions: [{name: writer, expression: "request.userInfo.username == 'stormer'"}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: simulated-2}}
  action: Drop`}
}

// TestSimulateMatchesWebhook records a storm of recorders that write about the same objects at the same time, and
// simulates the recording. Only the webhook's annotations in the audit log record the order of the decisions.
func TestSimulateMatchesWebhook(t *testing.T) {
	t.Parallel()
	const namespaces, alike, each = 3, 4, 60
	e := newEnv(t)
	for _, p := range simulatedPolicies() {
		e.apply(p)
	}
	e.waitPoliciesGovern(e.namespace("probe"))
	config, kubeconfig, err := e.cluster.User(stormUser, "system:masters")
	e.must(err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	e.must(err)
	var writers errgroup.Group
	for i := range namespaces {
		namespace := e.namespace(fmt.Sprint("simulated-", i))
		writers.Go(func() error {
			_, err := storm.Storm{
				Namespace: namespace, Pods: 2, Events: each, Repeating: alike, Similar: alike, Series: alike, Reasons: alike,
			}.Run(t.Context(), config)
			return err
		})
		writers.Go(func() error { return writeSeries(t, client, namespace, each) })
	}
	e.must(writers.Wait())
	e.stopReplica()

	policies := filepath.Join(t.TempDir(), "policies.yaml")
	e.must(os.WriteFile(policies, []byte("apiVersion: eventquota.io/v1alpha1"+
		strings.Join(simulatedPolicies(), "\n---\napiVersion: eventquota.io/v1alpha1")), 0o600))
	live, outcomes := e.webhookAnswers(), map[string]int{}
	for _, answer := range live {
		outcomes[strings.SplitN(answer, " ", 2)[0]]++
	}
	for outcome, least := range map[string]int{admittedAnswer: namespaces, "merged": namespaces * each, "spam": each, "ClusterEventPolicy": each} {
		if outcomes[outcome] < least {
			t.Errorf("%d answers are %q, want at least %d", outcomes[outcome], outcome, least)
		}
	}
	for from, flags := range map[string][]string{"a file": {"--policies", policies}, "the cluster": {"--kubeconfig", kubeconfig}} {
		simulated, same := e.simulateAnswers(flags...), 0
		for id, answer := range live {
			if simulated[id] != answer {
				t.Errorf("request %s: the webhook answered %q, simulate says %q", id, answer, simulated[id])
				continue
			}
			same++
		}
		t.Logf("with the policies from %s, %d of %d requests got the same answer: %v", from, same, len(live), outcomes)
	}
}

// writeSeries writes n Events through events.k8s.io one after the other, and repeats every third.
func writeSeries(t *testing.T, client kubernetes.Interface, namespace string, n int) error {
	t.Helper()
	events := client.EventsV1().Events(namespace)
	for i := range n {
		e := newEvent(namespace, fmt.Sprint("series-", i), "web-0", fmt.Sprint("waits in line ", i%20))
		_, _ = events.Create(t.Context(), e, metav1.CreateOptions{}) // the audit log has the answer
		if i%3 > 0 {
			continue
		}
		patch := fmt.Sprintf(`{"series":{"count":2,"lastObservedTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
		_, _ = events.Patch(t.Context(), e.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	return t.Context().Err()
}

// nextTokenText begins the part of an answer that depends on the time of the decision.
const nextTokenText = ": next token"

// admittedAnswer stands for the answer to an admitted request.
const admittedAnswer = "admitted"

// webhookAnswers returns the webhook's answer to each request of the storm that reached it, by auditID.
func (e *env) webhookAnswers() map[string]string {
	e.Helper()
	all := map[string]string{}
	log := cluster.AuditLog{Path: e.cluster.AuditLog}
	e.must(log.ReadNew(func(line []byte) error {
		var l struct {
			AuditID   string
			ObjectRef struct{ Namespace string }
			User      struct{ Username string }
			Status    struct {
				Code    int
				Message string
			} `json:"responseStatus"`
		}
		err := json.Unmarshal(line, &l)
		answer, refused := strings.CutPrefix(l.Status.Message, "admission webhook ")
		if err != nil || l.User.Username == replica.User || !strings.HasPrefix(l.ObjectRef.Namespace, "simulated-") ||
			!refused && l.Status.Code/100 != 2 {
			return err
		}
		if refused {
			_, answer, _ = strings.Cut(answer, "denied the request: ")
		} else {
			answer = admittedAnswer
		}
		all[l.AuditID], _, _ = strings.Cut(answer, nextTokenText)
		return nil
	}))
	return all
}

// simulateAnswers returns the answer of simulate to each request in the audit log, by auditID.
func (e *env) simulateAnswers(flags ...string) map[string]string {
	e.Helper()
	args := append([]string{"simulate", e.cluster.AuditLog, "-o", "decisions"}, flags...)
	output, err := exec.CommandContext(e.Context(), e.program(), args...).Output()
	if err != nil {
		e.Fatalf("simulate: %v", err)
	}
	all := map[string]string{}
	for lines := json.NewDecoder(bytes.NewReader(output)); lines.More(); {
		var d struct{ AuditID, Outcome, Message string }
		e.must(lines.Decode(&d))
		if d.Outcome == "admit" || d.Outcome == "aggregate" {
			d.Message = admittedAnswer
		}
		all[d.AuditID], _, _ = strings.Cut(d.Message, nextTokenText)
	}
	return all
}
