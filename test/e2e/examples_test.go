package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
)

const (
	exampleDir = "../../manifests/examples"
	crdDir     = "../../manifests/crds"
)

// TestTheExamplesAreAccepted applies every example to the API server, compiles
// what that made of it, and asks which Events it matches.
func TestTheExamplesAreAccepted(t *testing.T) {
	if !isolated(t) {
		return
	}
	want := examplesByFile()
	files, err := os.ReadDir(exampleDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := want[file.Name()]; !ok {
			t.Errorf("%s is not known to this test", file.Name())
		}
	}
	apply := newApplier(t)
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(exampleDir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(content), "# ") {
				t.Error("it does not begin with a comment")
			}
			set, p := compiled(t, compiler, apply(t, content))
			if p.Action != w.action || p.Mode != w.mode {
				t.Errorf("action %s and mode %s, want %s and %s", p.Action, p.Mode, w.action, w.mode)
			}
			matches := func(e exampleEvent) bool {
				r := &policy.Request{Namespace: e.event.Namespace, Operation: "CREATE", UserInfo: policy.UserInfo{Username: "u", Groups: e.groups}}
				g := set.For(t.Context(), e.event.Namespace, &e.event, r)
				if len(g.Errors) > 0 {
					t.Errorf("%s: %v", e.says, g.Errors)
				}
				return g.Policy == p || g.Audit == p
			}
			for _, e := range w.matches {
				if !matches(e) {
					t.Errorf("%s: it does not match", e.says)
				}
			}
			for _, e := range w.spares {
				if matches(e) {
					t.Errorf("%s: it matches", e.says)
				}
			}
		})
	}
}

// compiled is the policy that the API server has stored, alone in a Set.
func compiled(t *testing.T, compiler *policy.Compiler, u *unstructured.Unstructured) (*policy.Set, *policy.Policy) {
	t.Helper()
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	shop := policy.Namespace{Labels: map[string]string{corev1.LabelMetadataName: "shop", "eventquota.io/tenant": "true"}}
	fallback := policy.Default()
	if u.GetKind() == v1alpha1.KindEventPolicy {
		var own v1alpha1.EventPolicy
		if err := convert(u.Object, &own); err != nil {
			t.Fatal(err)
		}
		p, errs := compiler.EventPolicy(&own)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		shop.Policies = []*policy.Policy{p}
		return policy.NewSet(&fallback, nil, map[string]policy.Namespace{own.Namespace: shop}), p
	}
	var admins v1alpha1.ClusterEventPolicy
	if err := convert(u.Object, &admins); err != nil {
		t.Fatal(err)
	}
	p, errs := compiler.ClusterEventPolicy(&admins)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return policy.NewSet(&fallback, []*policy.Policy{p}, map[string]policy.Namespace{"shop": shop}), p
}

// newApplier starts an API server that knows the policies' definitions. What it
// gives applies a file as kubectl apply --server-side --validate=strict does.
func newApplier(t *testing.T) func(*testing.T, []byte) *unstructured.Unstructured {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: []string{crdDir}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := namespaces.CoreV1().Namespaces().Create(t.Context(), shop, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, content []byte) *unstructured.Unstructured {
		t.Helper()
		var u unstructured.Unstructured
		if err := yaml.UnmarshalStrict(content, &u.Object); err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		applied, err := client.Resource(resource).Namespace(u.GetNamespace()).Patch(t.Context(), u.GetName(), types.ApplyPatchType, content,
			metav1.PatchOptions{FieldManager: "examples", FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
}

// example is what a file must do: match some Events, and leave others alone.
type example struct {
	action          policy.Action
	mode            policy.Mode
	matches, spares []exampleEvent
}

// exampleEvent is an Event, and who writes it. Namespace shop is a tenant.
type exampleEvent struct {
	says   string
	event  corev1.Event
	groups []string // of its writer
}

func eventFrom(component, eventType, reason string) exampleEvent {
	return exampleEvent{
		says: strings.Join([]string{component, eventType, reason}, " "),
		event: corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.1"},
			Source:     corev1.EventSource{Component: component}, Type: eventType, Reason: reason, Message: "back-off",
		},
	}
}

// reportedBy is an Event written through events.k8s.io: it has no source.
func reportedBy(controller, eventType, reason string) exampleEvent {
	w := eventFrom("", eventType, reason)
	w.says, w.event.ReportingController = "reported by "+controller+w.says, controller
	return w
}

func (w exampleEvent) saying(message string) exampleEvent {
	w.says, w.event.Message = fmt.Sprintf("%s with a message of %d bytes", w.says, len(message)), message
	return w
}

func (w exampleEvent) in(namespace string) exampleEvent {
	w.says, w.event.Namespace = w.says+" in "+namespace, namespace
	return w
}

func (w exampleEvent) by(group string) exampleEvent {
	w.says, w.groups = w.says+" by "+group, []string{group}
	return w
}

func examplesByFile() map[string]example {
	normal, untyped := eventFrom("kubelet", "Normal", "Pulled"), eventFrom("kubelet", "", "Pulled")
	warning := eventFrom("kubelet", "Warning", "BackOff")
	return map[string]example{
		"admin-floor.yaml":     {action: policy.Limit, mode: policy.Enforce, matches: []exampleEvent{normal, untyped, warning}, spares: []exampleEvent{normal.in("kube-system")}},
		"audit-first.yaml":     {action: policy.Limit, mode: policy.Audit, matches: []exampleEvent{normal, warning}},
		"emergency-brake.yaml": {action: policy.Drop, mode: policy.Enforce, matches: []exampleEvent{normal, untyped}, spares: []exampleEvent{warning}},
		"eventratelimit.yaml":  {action: policy.Admit, mode: policy.Enforce, matches: []exampleEvent{normal, untyped, warning}},
		"keep-rare-events.yaml": {
			action: policy.Limit, mode: policy.Enforce, matches: []exampleEvent{warning}, spares: []exampleEvent{normal, untyped},
		},
		"server-side-merging.yaml": {
			action: policy.Limit, mode: policy.Enforce,
			matches: []exampleEvent{eventFrom("kopf", "Normal", "Logging"), reportedBy("backup-operator", "Warning", "Failed")},
			spares:  []exampleEvent{normal, warning},
		},
		"silence-controller.yaml": {
			action: policy.Drop, mode: policy.Enforce,
			matches: []exampleEvent{eventFrom("karpenter", "Normal", "Nominated"), reportedBy("karpenter", "Normal", "DisruptionBlocked"), eventFrom("karpenter", "", "Nominated")},
			spares:  []exampleEvent{eventFrom("karpenter", "Warning", "Nominated"), eventFrom("karpenter", "Normal", "Launched"), eventFrom("kubelet", "Normal", "Nominated")},
		},
		"size-limit.yaml": {
			action: policy.Limit, mode: policy.Enforce,
			matches: []exampleEvent{normal.saying(strings.Repeat("é", 257))},
			spares:  []exampleEvent{normal.saying(strings.Repeat("é", 256)), normal},
		},
		"store-failure.yaml": {action: policy.Limit, mode: policy.Enforce, matches: []exampleEvent{normal, warning}},
		"tenant-limit.yaml":  {action: policy.Limit, mode: policy.Enforce, matches: []exampleEvent{normal, warning}, spares: []exampleEvent{normal.in("kube-system")}},
		"user-quota.yaml": {
			action: policy.Limit, mode: policy.Enforce, matches: []exampleEvent{normal, normal.by("system:masters")}, spares: []exampleEvent{normal.by("system:nodes")},
		},
	}
}
