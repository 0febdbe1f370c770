package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
)

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
