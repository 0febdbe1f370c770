package policy_test

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
)

// ruleBuilder compiles policies that are written in YAML.
type ruleBuilder struct{ *policy.Compiler }

var compiler = sync.OnceValues(policy.NewCompiler)

func newRuleBuilder(tb testing.TB) ruleBuilder {
	tb.Helper()
	c, err := compiler()
	if err != nil {
		tb.Fatal(err)
	}
	return ruleBuilder{c}
}

// compile compiles an object with a spec in YAML.
func (w ruleBuilder) compile(tb testing.TB, kind, namespace, name, spec string) (policy.Rules, error) {
	tb.Helper()
	asJSON, err := yaml.YAMLToJSONStrict([]byte(spec))
	var u unstructured.Unstructured
	if err == nil {
		err = u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"eventquota.io/v1alpha1","kind":%q,"spec":%s}`, kind, cmp.Or(strings.TrimPrefix(string(asJSON), "null"), "{}")))
	}
	if err != nil {
		tb.Fatalf("%s: %v", spec, err)
	}
	u.SetNamespace(namespace)
	u.SetName(name)
	return w.Compile(&u)
}

func (w ruleBuilder) mustCompile(tb testing.TB, kind, namespace, name, spec string) policy.Rules {
	tb.Helper()
	made, err := w.compile(tb, kind, namespace, name, spec)
	if err != nil {
		tb.Fatalf("%s: %v", spec, err)
	}
	return made
}

// policy is a policy of namespace a.
func (w ruleBuilder) policy(tb testing.TB, name, spec string) *policy.Policy {
	tb.Helper()
	return w.mustCompile(tb, "EventPolicy", "a", name, spec).Policies[0]
}

// clusterPolicy is a policy of the cluster.
func (w ruleBuilder) clusterPolicy(tb testing.TB, name, spec string) *policy.Policy {
	tb.Helper()
	return w.mustCompile(tb, "ClusterEventPolicy", "", name, spec).Policies[0]
}

// quota is a quota of namespace a.
func (w ruleBuilder) quota(tb testing.TB, name, spec string) *policy.Quota {
	tb.Helper()
	return w.mustCompile(tb, "EventQuota", "a", name, spec).Quotas[0]
}

// clusterQuota is a quota of the cluster.
func (w ruleBuilder) clusterQuota(tb testing.TB, name, spec string) *policy.Quota {
	tb.Helper()
	return w.mustCompile(tb, "ClusterEventQuota", "", name, spec).Quotas[0]
}

// namespaceA returns the namespaces of a Set: only a, with the given rules.
func namespaceA(policies []*policy.Policy, quotas ...*policy.Quota) map[string]policy.Namespace {
	return map[string]policy.Namespace{"a": {Rules: policy.Rules{Policies: policies, Quotas: quotas}}}
}

// backOff is an Event as the kubelet writes it.
func backOff() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "a", Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "web", APIVersion: "v1"},
		Reason:         "BackOff",
		Message:        "Back-off restarting failed container",
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		Type:           corev1.EventTypeWarning,
		Count:          3,
	}
}

func create() *policy.Request {
	return &policy.Request{
		Name: "web.1", Namespace: "a", Operation: "CREATE",
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Event"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "events"},
		UserInfo: policy.UserInfo{Username: "system:node:node-1", Groups: []string{"system:nodes"}, Extra: map[string][]string{"k": {"v"}}},
	}
}
