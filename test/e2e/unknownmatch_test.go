package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/expression"
)

// unknownMatches returns matches whose result for an Event is unknown, and others whose result is certain.
func unknownMatches() []unknownMatch {
	condition := func(expression string) string {
		return fmt.Sprintf("conditions: [{name: c, expression: %q}]", expression)
	}
	message := func(text string) func(*corev1.Event) { return func(e *corev1.Event) { e.Message = text } }
	long := strings.Repeat("a", 2*expression.MaxText)
	return []unknownMatch{
		{match: condition("namespaceObject.metadata.labels['zz'] == 'there'"), isUnknown: true},
		{match: condition("!('zz' in namespaceObject.metadata.labels)"), isUnknown: true},
		{match: condition("namespaceObject.metadata.annotations['zz'] == 'there'"), isUnknown: true},
		{match: condition("namespaceObject.metadata.annotations['long'].size() > 0"), isUnknown: true},
		{match: condition("namespaceObject.metadata.labels['a00'].startsWith('x')")},
		{match: "reasons: [BackOff]", labels: ", zselected: there"},
		{match: condition("event.metadata.labels['none'] == ''"), isUnknown: true},
		{match: condition("event.lastTimestamp - event.firstTimestamp > duration('1m')"), isUnknown: true, change: func(e *corev1.Event) {
			e.FirstTimestamp, e.LastTimestamp = metav1.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), metav1.Now()
		}},
		{match: condition("event.count * 9223372036854775807 > 0"), isUnknown: true, change: func(e *corev1.Event) { e.Count = 2 }},
		{match: condition("event.message.endsWith('a')"), isUnknown: true, change: message(long)},
		{match: condition("event.messageBytes > 5000"), change: message(long)},
		{match: "messages: ['*b*']", isUnknown: true, change: message(long)},
		{match: "messages: ['*ab']", change: message(long + "b")},
		{match: condition("event.reason == 'BackOff'"), isUnknown: true, change: message(strings.Repeat("m", admission.MaxReviewBytes))},
		{match: "reasons: [BackOff]", isUnknown: true, change: message(strings.Repeat("m", admission.MaxReviewBytes))},
		{match: condition("request.userInfo.username == 'writer'"), change: message(strings.Repeat("m", admission.MaxReviewBytes))},
	}
}

// unknownMatch is a match, with additional labels of its namespace selector, and a change of the tested Event.
type unknownMatch struct {
	match, labels string
	change        func(*corev1.Event)
	// isUnknown reports whether the result is unknown.
	isUnknown bool
}

// rules returns two quotas and a policy for one namespace. If it surely matches, the quota that goes first replaces
// the limit of the other, and the policy exempts from both.
func (u *unknownMatch) rules(namespace string) string {
	only := fmt.Sprintf("namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s%%s}}", namespace)
	may, strict := fmt.Sprintf(only, u.labels)+", "+u.match, fmt.Sprintf(only, "")
	rule := func(kind, name, match, spec string) string {
		return fmt.Sprintf("apiVersion: eventquota.io/v1alpha1\nkind: %s\nmetadata: {name: %s-%s}\nspec: {match: {%s}, %s}\n", kind, name, namespace, match, spec)
	}
	return strings.Join([]string{
		rule("ClusterEventQuota", "may", may, "precedence: 1, limits: [{name: l, burst: 1000, tokens: 1}]"),
		rule("ClusterEventQuota", "strict", strict, "limits: [{name: l, burst: 1, tokens: 1, interval: 24h}]"),
		rule("ClusterEventPolicy", "exempt", may, "action: Exempt"),
	}, "---\n")
}

// TestSimulateMatchesWebhookOnUnknownMatches writes Events for which the result of a match is unknown, and simulates
// the recording. The webhook and simulate must both apply the stricter of two limits and no exemption.
func TestSimulateMatchesWebhookOnUnknownMatches(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, kubeconfig, err := e.cluster.User("administrator", "system:masters")
	e.must(err)
	all := unknownMatches()
	documents := make([]string, 0, 2*len(all))
	for i := range all {
		namespace := e.unknownNamespace(fmt.Sprint("simulated-", i))
		text, err := yaml.Marshal(namespace)
		e.must(err)
		rules := all[i].rules(namespace.Name)
		documents = append(documents, string(text), rules)
		e.kubectl(rules, "apply", "-f", "-")
	}
	e.waitPoliciesGovern(e.namespace("probe"))
	for i := range all {
		e.writeUnknownMatch(fmt.Sprint("simulated-", i), &all[i])
	}
	e.stopReplica()

	policies := filepath.Join(t.TempDir(), "policies.yaml")
	e.must(os.WriteFile(policies, []byte(strings.Join(documents, "---\n")), 0o600))
	live := e.webhookAnswers()
	if len(live) != 3*len(all) {
		t.Errorf("the webhook answered %d requests, want three for each of %d matches", len(live), len(all))
	}
	for from, flags := range map[string][]string{"a file": {"--policies", policies}, "the cluster": {"--kubeconfig", kubeconfig}} {
		simulated := e.simulateAnswers(flags...)
		for id, answer := range live {
			if simulated[id] != answer {
				t.Errorf("request %s: the webhook answered %q, simulate with the policies from %s says %q", id, answer, from, simulated[id])
			}
		}
	}
}

// unknownNamespace creates a namespace with more labels and annotations than replicas keep.
func (e *env) unknownNamespace(name string) *corev1.Namespace {
	e.Helper()
	n := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	n.Name, n.Labels, n.Annotations = name, map[string]string{}, map[string]string{"long": strings.Repeat("l", policy.MaxAnnotationBytes)}
	x := strings.Repeat("x", 63)
	for i := range max(policy.MaxLabelsBytes, policy.MaxAnnotationsBytes) / len("a00"+x) {
		n.Labels[fmt.Sprintf("a%02d", i)], n.Annotations[fmt.Sprintf("a%02d", i)] = x, x
	}
	for _, key := range []string{"zz", "zselected"} {
		n.Labels[key], n.Annotations[key] = "there", "there"
	}
	created, err := e.client.CoreV1().Namespaces().Create(e.Context(), n, metav1.CreateOptions{})
	e.must(err)
	n.Labels = created.Labels
	return n
}

// writeUnknownMatch writes three Events. The strict quota, if it applies, must refuse the second and third.
func (e *env) writeUnknownMatch(namespace string, u *unknownMatch) {
	e.Helper()
	for i := range 3 {
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("e", i)},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: fmt.Sprint("p", i)},
			Reason:         "BackOff", Message: fmt.Sprint("m", i), Type: corev1.EventTypeNormal, Count: 1,
			Source: corev1.EventSource{Component: "kubelet"}, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		}
		if u.change != nil {
			u.change(event)
		}
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		if err != nil && !apierrors.IsForbidden(err) && !isDropped(err) {
			e.Errorf("%s: %v", u.match, err)
		}
		if refused := err != nil; refused != (u.isUnknown && i > 0) {
			e.Errorf("%s: Event %d refused: %t (%v), want %t", u.match, i, refused, err, u.isUnknown && i > 0)
		}
	}
}
