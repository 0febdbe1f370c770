package policy

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/expression"
)

// The variables of conditions.
const (
	eventVariable     = "event"
	requestVariable   = "request"
	namespaceVariable = "namespaceObject"
)

// NamespaceObject is the variable namespaceObject of conditions.
type NamespaceObject struct {
	Name                string
	Labels, Annotations map[string]string
	// PartialLabels and PartialAnnotations report that the namespace has more. Labels and annotations are nil while they are unknown.
	PartialLabels, PartialAnnotations bool
}

// The types of the variables.
const (
	eventType     = "policy.Event"
	requestType   = "policy.Request"
	namespaceType = "policy.Namespace"
)

// conditionCompiler returns the Compiler of conditions, always the same. It declares every field and its type, so that a condition with an
// unknown field does not compile.
//
//nolint:gochecknoglobals // it never changes
var conditionCompiler = sync.OnceValues(func() (*expression.Compiler, error) {
	return expression.NewCompiler(
		map[string]string{eventVariable: eventType, requestVariable: requestType, namespaceVariable: namespaceType},
		objects(),
	)
})

// objects returns the variables: the Event with the field names of core/v1, its controller and the length of its message; the
// request; and the namespace. Missing texts and numbers of an Event are empty, so that no Event evades a
// condition by omitting one.
func objects() map[string]expression.Object {
	return map[string]expression.Object{
		eventType: {
			"metadata":           expression.ObjectField("policy.Metadata", func(e *corev1.Event) *metav1.ObjectMeta { return &e.ObjectMeta }),
			"involvedObject":     expression.ObjectField("policy.ObjectReference", func(e *corev1.Event) *corev1.ObjectReference { return &e.InvolvedObject }),
			"related":            expression.ObjectField("policy.ObjectReference", func(e *corev1.Event) *corev1.ObjectReference { return e.Related }),
			"source":             expression.ObjectField("policy.Source", func(e *corev1.Event) *corev1.EventSource { return &e.Source }),
			"series":             expression.ObjectField("policy.Series", func(e *corev1.Event) *corev1.EventSeries { return e.Series }),
			"reason":             expression.Text(func(e *corev1.Event) string { return e.Reason }),
			"message":            expression.Text(func(e *corev1.Event) string { return e.Message }),
			"messageBytes":       expression.Int(func(e *corev1.Event) int64 { return int64(len(e.Message)) }),
			"type":               expression.Text(func(e *corev1.Event) string { return e.Type }),
			"action":             expression.Text(func(e *corev1.Event) string { return e.Action }),
			"count":              expression.Int(func(e *corev1.Event) int64 { return int64(e.Count) }),
			"reportingComponent": expression.Text(func(e *corev1.Event) string { return e.ReportingController }),
			"reportingInstance":  expression.Text(func(e *corev1.Event) string { return e.ReportingInstance }),
			"controller":         expression.Text(controller),
			"firstTimestamp":     expression.Time(func(e *corev1.Event) time.Time { return e.FirstTimestamp.Time }),
			"lastTimestamp":      expression.Time(func(e *corev1.Event) time.Time { return e.LastTimestamp.Time }),
			"eventTime":          expression.Time(func(e *corev1.Event) time.Time { return e.EventTime.Time }),
		},
		"policy.Metadata": {
			"name":              expression.Text(func(m *metav1.ObjectMeta) string { return m.Name }),
			"generateName":      expression.Text(func(m *metav1.ObjectMeta) string { return m.GenerateName }),
			"namespace":         expression.Text(func(m *metav1.ObjectMeta) string { return m.Namespace }),
			"uid":               expression.Text(func(m *metav1.ObjectMeta) string { return string(m.UID) }),
			"creationTimestamp": expression.Time(func(m *metav1.ObjectMeta) time.Time { return m.CreationTimestamp.Time }),
			"labels":            expression.TextMap(func(m *metav1.ObjectMeta) map[string]string { return m.Labels }, nil),
			"annotations":       expression.TextMap(func(m *metav1.ObjectMeta) map[string]string { return m.Annotations }, nil),
		},
		"policy.ObjectReference": {
			"kind":            expression.Text(func(o *corev1.ObjectReference) string { return o.Kind }),
			"namespace":       expression.Text(func(o *corev1.ObjectReference) string { return o.Namespace }),
			"name":            expression.Text(func(o *corev1.ObjectReference) string { return o.Name }),
			"uid":             expression.Text(func(o *corev1.ObjectReference) string { return string(o.UID) }),
			"apiVersion":      expression.Text(func(o *corev1.ObjectReference) string { return o.APIVersion }),
			"resourceVersion": expression.Text(func(o *corev1.ObjectReference) string { return o.ResourceVersion }),
			"fieldPath":       expression.Text(func(o *corev1.ObjectReference) string { return o.FieldPath }),
		},
		"policy.Source": {
			"component": expression.Text(func(s *corev1.EventSource) string { return s.Component }),
			"host":      expression.Text(func(s *corev1.EventSource) string { return s.Host }),
		},
		"policy.Series": {
			"count":            expression.Int(func(s *corev1.EventSeries) int64 { return int64(s.Count) }),
			"lastObservedTime": expression.Time(func(s *corev1.EventSeries) time.Time { return s.LastObservedTime.Time }),
		},
		requestType: {
			"kind":               expression.ObjectField("policy.Kind", func(a *activation) *metav1.GroupVersionKind { return &a.request.Kind }),
			"requestKind":        expression.ObjectField("policy.Kind", func(a *activation) *metav1.GroupVersionKind { return &a.request.RequestKind }),
			"resource":           expression.ObjectField("policy.Resource", func(a *activation) *metav1.GroupVersionResource { return &a.request.Resource }),
			"requestResource":    expression.ObjectField("policy.Resource", func(a *activation) *metav1.GroupVersionResource { return &a.request.RequestResource }),
			"userInfo":           expression.ObjectField("policy.UserInfo", func(a *activation) *UserInfo { return &a.request.UserInfo }),
			"subResource":        expression.Text(func(a *activation) string { return a.request.SubResource }),
			"requestSubResource": expression.Text(func(a *activation) string { return a.request.RequestSubResource }),
			"name":               expression.Text(func(a *activation) string { return a.request.Name }),
			"namespace":          expression.Text(func(a *activation) string { return a.request.Namespace }),
			"operation":          expression.Text(func(a *activation) string { return string(a.request.Operation) }),
			"dryRun":             expression.Bool((*activation).dryRun),
		},
		"policy.UserInfo": {
			"username": expression.Text(func(u *UserInfo) string { return u.Username }),
			"uid":      expression.Text(func(u *UserInfo) string { return u.UID }),
			"groups":   expression.TextList(func(u *UserInfo) []string { return u.Groups }),
			"extra":    expression.TextListMap(func(u *UserInfo) map[string][]string { return u.Extra }),
		},
		"policy.Kind": {
			"group":   expression.Text(func(k *metav1.GroupVersionKind) string { return k.Group }),
			"version": expression.Text(func(k *metav1.GroupVersionKind) string { return k.Version }),
			"kind":    expression.Text(func(k *metav1.GroupVersionKind) string { return k.Kind }),
		},
		"policy.Resource": {
			"group":    expression.Text(func(r *metav1.GroupVersionResource) string { return r.Group }),
			"version":  expression.Text(func(r *metav1.GroupVersionResource) string { return r.Version }),
			"resource": expression.Text(func(r *metav1.GroupVersionResource) string { return r.Resource }),
		},
		namespaceType: {
			"metadata": expression.ObjectField("policy.NamespaceMetadata", func(n *NamespaceObject) *NamespaceObject { return n }),
		},
		"policy.NamespaceMetadata": {
			"name":        expression.Text(func(n *NamespaceObject) string { return n.Name }),
			"labels":      expression.TextMap(func(n *NamespaceObject) map[string]string { return n.Labels }, missingLabel),
			"annotations": expression.TextMap(func(n *NamespaceObject) map[string]string { return n.Annotations }, missingAnnotation),
		},
	}
}

func missingLabel(n *NamespaceObject) error { return n.missing("labels", n.PartialLabels) }

func missingAnnotation(n *NamespaceObject) error {
	return n.missing("annotations", n.PartialAnnotations)
}

// missing returns the reason why an unknown label or annotation may exist.
func (n *NamespaceObject) missing(what string, partial bool) error {
	switch {
	case n.Labels == nil:
		return fmt.Errorf("%w: %s of the namespace are %w", expression.ErrUnknown, what, ErrNotSynced)
	case partial:
		return fmt.Errorf("%w: the namespace has more %s than are known", expression.ErrUnknown, what)
	}
	return nil
}

// activation gives conditions their variables. It is not safe for concurrent use.
type activation struct {
	event     *corev1.Event // nil if it cannot be read
	request   *Request
	namespace *NamespaceObject
}

var _ interpreter.Activation = (*activation)(nil)

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case eventVariable:
		if a.event == nil {
			return types.WrapErr(fmt.Errorf("%w: the Event cannot be read", expression.ErrUnknown)), true
		}
		return a.event, true
	case requestVariable:
		return a, true
	case namespaceVariable:
		return a.namespace, true
	}
	return nil, false
}

// dryRun returns whether the request is a dry run. It follows the Event in a review, so it is unknown if the review was cut.
func (a *activation) dryRun() (bool, error) {
	if a.event == nil {
		return false, fmt.Errorf("%w: the request cannot be read to its end", expression.ErrUnknown)
	}
	return a.request.DryRun, nil
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
