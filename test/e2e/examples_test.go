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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
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
	for name, rules := range want {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(exampleDir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(content), "# ") {
				t.Error("it does not begin with a comment")
			}
			files, err := policyfile.New()
			if err != nil {
				t.Fatal(err)
			}
			documents := []string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {eventquota.io/tenant: 'true'}}"}
			for document := range strings.SplitSeq(string(content), "---\n") {
				applied, err := apply(t, []byte(document)).MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, string(applied))
			}
			for _, document := range documents {
				if err := files.Decode([]byte(document)); err != nil {
					t.Fatal(err)
				}
			}
			if len(rules) != len(documents)-1 {
				t.Errorf("it has %d objects, want %d", len(documents)-1, len(rules))
			}
			for rule, w := range rules {
				w.check(t, files.Set(), rule)
			}
		})
	}
}

// check holds what a rule of a Set matches.
func (w example) check(t *testing.T, set *policy.Set, rule string) {
	t.Helper()
	matches := func(e exampleEvent) bool {
		r := &policy.Request{Namespace: e.event.Namespace, Operation: "CREATE", UserInfo: policy.UserInfo{Username: "u", Groups: e.groups}}
		g := set.For(t.Context(), e.event.Namespace, &e.event, r)
		if len(g.Errors) > 0 {
			t.Errorf("%s: %v", e.says, g.Errors)
		}
		found := g.Rule(rule)
		switch {
		case found == nil:
			return false
		case w.audited != (found.Mode == policy.Audit):
			t.Errorf("%s is in mode %s", rule, found.Mode)
		case w.drops != (g.Policy.Name == rule && g.Policy.Action == policy.Drop):
			t.Errorf("%s has action %s", rule, g.Policy.Action)
		}
		return true
	}
	for _, e := range w.matches {
		if !matches(e) {
			t.Errorf("%s does not match %s", rule, e.says)
		}
	}
	for _, e := range w.spares {
		if matches(e) {
			t.Errorf("%s matches %s", rule, e.says)
		}
	}
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

// example is what a rule must do: match some Events, and leave others alone.
type example struct {
	drops, audited  bool
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

// examplesByFile has the rules of each file by their names.
func examplesByFile() map[string]map[string]example {
	normal, untyped := eventFrom("kubelet", "Normal", "Pulled"), eventFrom("kubelet", "", "Pulled")
	warning := eventFrom("kubelet", "Warning", "BackOff")
	all := example{matches: []exampleEvent{normal, untyped, warning, normal.in("kube-system")}}
	audited := all
	audited.audited = true
	tenants := example{matches: []exampleEvent{normal, untyped, warning}, spares: []exampleEvent{normal.in("kube-system")}}
	warnings := example{matches: []exampleEvent{warning}, spares: []exampleEvent{normal, untyped}}
	return map[string]map[string]example{
		"audit-first.yaml": {"ClusterEventPolicy stricter-spam-filter": audited, "ClusterEventQuota stricter-quota": audited},
		"ci-namespaces.yaml": {
			"ClusterEventQuota namespaces":       all,
			"ClusterEventQuota namespaces-of-ci": {spares: []exampleEvent{normal, warning}},
		},
		"emergency-brake.yaml": {"ClusterEventPolicy emergency-brake": {
			drops: true, matches: []exampleEvent{normal, untyped}, spares: []exampleEvent{warning},
		}},
		"eventratelimit.yaml":         {"ClusterEventQuota eventratelimit": all},
		"keep-rare-events.yaml":       {"ClusterEventPolicy keep-rare-warnings": warnings},
		"keep-warnings.yaml":          {"ClusterEventPolicy keep-warnings": warnings},
		"leave-warnings-through.yaml": {"ClusterEventQuota fair-share": all},
		"merge-for-operators.yaml": {"ClusterEventPolicy merge-for-operators": {
			matches: []exampleEvent{eventFrom("kopf", "Normal", "Logging"), reportedBy("backup-operator", "Warning", "Failed")},
			spares:  []exampleEvent{normal, warning},
		}},
		"probe-storm.yaml": {"ClusterEventQuota probes": {
			matches: []exampleEvent{eventFrom("kubelet", "Warning", "Unhealthy"), eventFrom("kubelet", "Warning", "ProbeWarning")},
			spares:  []exampleEvent{warning, eventFrom("other", "Warning", "Unhealthy")},
		}},
		"silence-controller.yaml": {"ClusterEventPolicy silence-karpenter": {
			drops:   true,
			matches: []exampleEvent{eventFrom("karpenter", "Normal", "Nominated"), reportedBy("karpenter", "Normal", "DisruptionBlocked"), eventFrom("karpenter", "", "Nominated")},
			spares:  []exampleEvent{eventFrom("karpenter", "Warning", "Nominated"), eventFrom("karpenter", "Normal", "Launched"), eventFrom("kubelet", "Normal", "Nominated")},
		}},
		"size-limit.yaml": {"ClusterEventPolicy size-limit": {
			matches: []exampleEvent{normal.saying(strings.Repeat("é", 257))},
			spares:  []exampleEvent{normal.saying(strings.Repeat("é", 256)), normal},
		}},
		"store-failure.yaml": {"ClusterEventQuota without-redis": all},
		"team-limit.yaml":    {"EventQuota shop/team": tenants, "EventPolicy shop/team": tenants},
		"tenant-quota.yaml":  {"ClusterEventQuota tenants": tenants},
		"user-quota.yaml": {"ClusterEventQuota users": {
			matches: []exampleEvent{normal, normal.by("system:masters")}, spares: []exampleEvent{normal.by("system:nodes")},
		}},
	}
}
