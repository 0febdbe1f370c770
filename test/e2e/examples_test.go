package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
)

const (
	exampleDir = "../../manifests/examples"
	crdDir     = "../../manifests/crds"
)

// checkExamples applies all examples at once, compiles the objects that the API server returns for each, and checks which Events they
// match.
func (e *env) checkExamples() {
	e.Helper()
	want := examplesByFile()
	files, err := os.ReadDir(exampleDir)
	e.must(err)
	if len(files) != len(want) {
		e.Errorf("found %d examples, want the %d listed in examplesByFile", len(files), len(want))
	}
	e.kubectl("", "create", "namespace", "shop")
	var stored struct{ Items []json.RawMessage }
	e.must(json.Unmarshal([]byte(e.kubectl("", "apply", "--server-side", "-f", exampleDir, "-o", "json")), &stored))
	objects := map[string]json.RawMessage{}
	for _, item := range stored.Items {
		var o metav1.PartialObjectMetadata
		e.must(json.Unmarshal(item, &o))
		objects[o.Kind+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")] = item
	}
	for _, file := range files {
		e.Run(file.Name(), func(t *testing.T) {
			e := e.forSubtest(t)
			content, err := os.ReadFile(filepath.Join(exampleDir, file.Name()))
			e.must(err)
			if !strings.HasPrefix(string(content), "# ") {
				t.Error("the file does not begin with a comment")
			}
			rules, err := policyfile.New()
			e.must(err)
			e.must(rules.Decode([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {eventquota.io/tenant: 'true', kubernetes.io/metadata.name: shop}}")))
			e.must(rules.Decode([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}")))
			for rule := range want[file.Name()] {
				if objects[rule] == nil {
					t.Errorf("the file has no %s, which examplesByFile lists", rule)
				}
				e.must(rules.Decode(objects[rule]))
			}
			if len(want[file.Name()]) != strings.Count(string(content), "\nkind: ") {
				t.Errorf("examplesByFile lists %d rules, want one for each object of the file", len(want[file.Name()]))
			}
			for rule, w := range want[file.Name()] {
				w.check(t, rules.Set(), rule)
			}
		})
	}
}

// check checks which Events a rule of a Set matches.
func (w example) check(t *testing.T, set *policy.Set, rule string) {
	t.Helper()
	matches := func(e exampleEvent) bool {
		r := &policy.Request{Namespace: e.event.Namespace, Operation: "CREATE", UserInfo: policy.UserInfo{Username: "u", Groups: e.groups}}
		g := set.Resolve(t.Context(), e.event.Namespace, &e.event, r)
		if len(g.Errors) > 0 {
			t.Errorf("%s: %v", e.description, g.Errors)
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
			t.Errorf("%s does not match %s", rule, e.description)
		}
	}
	for _, e := range w.ignores {
		if matches(e) {
			t.Errorf("%s matches %s", rule, e.description)
		}
	}
}

// example lists Events that a rule must match and Events that it must ignore.
type example struct {
	drops, audited   bool
	matches, ignores []exampleEvent
}

// exampleEvent is an Event and its writer's groups. Namespace shop is a tenant.
type exampleEvent struct {
	description string
	event       corev1.Event
	groups      []string // of its writer
}

func eventFrom(component, eventType, reason string) exampleEvent {
	return exampleEvent{
		description: strings.Join([]string{component, eventType, reason}, " "),
		event: corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web.1"},
			Source:     corev1.EventSource{Component: component}, Type: eventType, Reason: reason, Message: "back-off",
		},
	}
}

// reportedBy returns an Event written through events.k8s.io, which has no source.
func reportedBy(controller, eventType, reason string) exampleEvent {
	w := eventFrom("", eventType, reason)
	w.description, w.event.ReportingController = "reported by "+controller+w.description, controller
	return w
}

func (w exampleEvent) saying(message string) exampleEvent {
	w.description, w.event.Message = fmt.Sprintf("%s with a message of %d bytes", w.description, len(message)), message
	return w
}

func (w exampleEvent) in(namespace string) exampleEvent {
	w.description, w.event.Namespace = w.description+" in "+namespace, namespace
	return w
}

func (w exampleEvent) by(group string) exampleEvent {
	w.description, w.groups = w.description+" by "+group, []string{group}
	return w
}

// examplesByFile returns the rules of each file, by name.
func examplesByFile() map[string]map[string]example {
	normal, untyped := eventFrom("kubelet", "Normal", "Pulled"), eventFrom("kubelet", "", "Pulled")
	warning := eventFrom("kubelet", "Warning", "BackOff")
	unhealthy := eventFrom("kubelet", "Warning", "Unhealthy")
	all := example{matches: []exampleEvent{normal, untyped, warning, normal.in("kube-system")}}
	audited := all
	audited.audited = true
	tenants := example{matches: []exampleEvent{normal, untyped, warning}, ignores: []exampleEvent{normal.in("kube-system")}}
	warnings := example{matches: []exampleEvent{warning}, ignores: []exampleEvent{normal, untyped}}
	return map[string]map[string]example{
		"audit-first.yaml": {"ClusterEventPolicy stricter-spam-filter": audited, "ClusterEventQuota stricter-quota": audited},
		"ci-namespaces.yaml": {
			"ClusterEventQuota namespaces":       all,
			"ClusterEventQuota namespaces-of-ci": {ignores: []exampleEvent{normal, warning}},
		},
		"eventratelimit.yaml":         {"ClusterEventQuota eventratelimit": all},
		"keep-rare-events.yaml":       {"ClusterEventPolicy keep-rare-warnings": warnings},
		"keep-reasons.yaml":           {"ClusterEventQuota keep-reasons": all},
		"keep-warnings.yaml":          {"ClusterEventPolicy keep-warnings": warnings},
		"leave-warnings-through.yaml": {"ClusterEventQuota fair-share": all},
		"merge-for-operators.yaml": {"ClusterEventPolicy merge-for-operators": {
			matches: []exampleEvent{eventFrom("kopf", "Normal", "Logging"), reportedBy("backup-operator", "Warning", "Failed")},
			ignores: []exampleEvent{normal, warning},
		}},
		"one-namespace.yaml": {"ClusterEventQuota one-namespace": {
			matches: []exampleEvent{normal, untyped}, ignores: []exampleEvent{warning, normal.in("kube-system")},
		}},
		"probe-storm.yaml": {"ClusterEventQuota probes": {
			matches: []exampleEvent{eventFrom("kubelet", "Warning", "Unhealthy"), eventFrom("kubelet", "Warning", "ProbeWarning")},
			ignores: []exampleEvent{warning, eventFrom("other", "Warning", "Unhealthy")},
		}},
		"silence-controller.yaml": {"ClusterEventPolicy silence-karpenter": {
			drops:   true,
			matches: []exampleEvent{eventFrom("karpenter", "Normal", "Nominated"), reportedBy("karpenter", "Normal", "DisruptionBlocked"), eventFrom("karpenter", "", "Nominated")},
			ignores: []exampleEvent{eventFrom("karpenter", "Warning", "Nominated"), eventFrom("karpenter", "Normal", "Launched"), eventFrom("kubelet", "Normal", "Nominated")},
		}},
		"silence-message.yaml": {"EventPolicy shop/silence-starting-pods": {
			drops: true,
			matches: []exampleEvent{
				unhealthy.saying(`Readiness probe failed: Get "http://10.0.0.7:8080/": dial tcp 10.0.0.7:8080: connect: connection refused`),
				unhealthy.saying("Startup probe failed: "),
			},
			ignores: []exampleEvent{
				unhealthy.saying("Liveness probe failed: connection refused"), unhealthy.saying("Readiness probe failed: HTTP probe failed with statuscode: 503"),
				warning.saying("Startup probe failed: "), unhealthy.saying("Startup probe failed: ").in("kube-system"),
			},
		}},
		"size-limit.yaml": {"ClusterEventPolicy size-limit": {
			matches: []exampleEvent{normal.saying(strings.Repeat("é", 257))},
			ignores: []exampleEvent{normal.saying(strings.Repeat("é", 256)), normal},
		}},
		"store-failure.yaml": {"ClusterEventQuota without-redis": all},
		"team-limit.yaml":    {"EventQuota shop/team": tenants, "EventPolicy shop/team": tenants},
		"tenant-quota.yaml":  {"ClusterEventQuota tenants": tenants},
		"try-first.yaml":     {"ClusterEventPolicy exempt-while-trying": all, "ClusterEventPolicy audited-default": audited},
		"user-quota.yaml": {"ClusterEventQuota users": {
			matches: []exampleEvent{normal, normal.by("system:masters")}, ignores: []exampleEvent{normal.by("system:nodes")},
		}},
	}
}
