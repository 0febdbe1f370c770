package policy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// writer compiles policies that are written in YAML.
type writer struct{ *policy.Compiler }

func newWriter(tb testing.TB) writer {
	tb.Helper()
	c, err := policy.NewCompiler()
	if err != nil {
		tb.Fatal(err)
	}
	return writer{c}
}

// read compiles an object with a spec in YAML.
func (w writer) read(tb testing.TB, object runtime.Object, spec string) (policy.Rules, field.ErrorList) {
	tb.Helper()
	asJSON, err := yaml.YAMLToJSONStrict([]byte(spec))
	if err == nil {
		err = yaml.UnmarshalStrict([]byte(`{"spec":`+string(asJSON)+`}`), object)
	}
	if err != nil {
		tb.Fatalf("%s: %v", spec, err)
	}
	return w.Compile(object)
}

func (w writer) valid(tb testing.TB, object runtime.Object, spec string) policy.Rules {
	tb.Helper()
	made, errs := w.read(tb, object, spec)
	if len(errs) > 0 {
		tb.Fatalf("%s: %v", spec, errs)
	}
	return made
}

// own is a policy of namespace a.
func (w writer) own(tb testing.TB, name, spec string) *policy.Policy {
	tb.Helper()
	return w.valid(tb, &v1alpha1.EventPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, spec).Policies[0]
}

// admins is a policy of the cluster.
func (w writer) admins(tb testing.TB, name, spec string) *policy.Policy {
	tb.Helper()
	return w.valid(tb, &v1alpha1.ClusterEventPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, spec).Policies[0]
}

// ownQuota is a quota of namespace a.
func (w writer) ownQuota(tb testing.TB, name, spec string) *policy.Quota {
	tb.Helper()
	return w.valid(tb, &v1alpha1.EventQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, spec).Quotas[0]
}

// adminsQuota is a quota of the cluster.
func (w writer) adminsQuota(tb testing.TB, name, spec string) *policy.Quota {
	tb.Helper()
	return w.valid(tb, &v1alpha1.ClusterEventQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}, spec).Quotas[0]
}

// a is what a Set knows of namespace a: these rules.
func a(policies []*policy.Policy, quotas ...*policy.Quota) map[string]policy.Namespace {
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
