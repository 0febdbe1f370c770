package valid

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
)

// Metadata beyond these is not looked at: the library needs about a microsecond for a name
// of a label, and a request has room for 300,000 of them.
const (
	maxEntries   = 500
	maxNameBytes = 32 << 10
)

// metadata has the rules for what is the same in all objects.
func metadata(m *metav1.ObjectMeta, namespace string, throughEventsAPI bool) error {
	name := pathSegment
	if throughEventsAPI {
		name = subdomain
	}
	if ordinary(m) && len(name(m.Name, false)) == 0 && len(validation.ValidateNamespaceName(namespace, false)) == 0 {
		return nil
	}
	switch sizes := annotationSizes(m.Annotations); {
	case sizes.least > validation.TotalAnnotationSizeLimitB:
		return invalid("metadata.annotations", "must have at most 256 KiB")
	case sizes.shown > validation.TotalAnnotationSizeLimitB, bulky(m):
		return nil
	}
	stored := *m
	stored.Namespace = namespace
	if stored.Name == "" && stored.GenerateName != "" {
		stored.Name = stored.GenerateName[:min(len(stored.GenerateName), names.MaxGeneratedNameLength)] + "xxxxx"
	}
	if errs := validation.ValidateObjectMeta(&stored, true, name, field.NewPath("metadata")); len(errs) > 0 {
		return invalid(errs[0].Field, "is invalid")
	}
	if throughEventsAPI {
		return finalizers(m.Finalizers)
	}
	return nil
}

// finalizers is added by events.k8s.io/v1: a name without a prefix is one of Kubernetes' own.
func finalizers(all []string) error {
	for _, name := range all {
		switch name {
		case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		default:
			if !strings.Contains(name, "/") {
				return invalid("metadata.finalizers", "must have a prefix")
			}
		}
	}
	return nil
}

// ordinary is true for metadata that need no library: nearly all Events have a name and
// managedFields, and nothing else.
func ordinary(m *metav1.ObjectMeta) bool {
	for i := range m.ManagedFields {
		if !ordinaryManager(&m.ManagedFields[i]) {
			return false
		}
	}
	return m.Name != "" && m.GenerateName == "" && m.Generation >= 0 &&
		len(m.Labels) == 0 && len(m.Annotations) == 0 && len(m.OwnerReferences) == 0 && len(m.Finalizers) == 0
}

func ordinaryManager(m *metav1.ManagedFieldsEntry) bool {
	for i := range len(m.Manager) {
		if m.Manager[i] < ' ' || m.Manager[i] > '~' {
			return false
		}
	}
	return len(m.Manager) <= metavalidation.FieldManagerMaxLength && m.Subresource == "" &&
		m.FieldsType == "FieldsV1" && (m.Operation == metav1.ManagedFieldsOperationUpdate || m.Operation == metav1.ManagedFieldsOperationApply)
}

// pathSegment is the rule for names of Events in core/v1.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// subdomain is the rule for names of Events in events.k8s.io/v1. It is added to that of core/v1.
func subdomain(name string, prefix bool) []string {
	if problems := pathSegment(name, prefix); len(problems) > 0 {
		return problems
	}
	// The rule for prefixes takes a trailing dash off first.
	if len(name) > content.DNS1123SubdomainMaxLength+1 {
		return []string{content.MaxLenError(content.DNS1123SubdomainMaxLength)}
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}

// sizes are of text as a review shows it, and the least it can have had in the request.
type sizes struct{ shown, least int }

func annotationSizes(annotations map[string]string) (s sizes) {
	for name, value := range annotations {
		s.shown += len(name) + len(value)
	}
	if s.least = s.shown; s.shown <= validation.TotalAnnotationSizeLimitB {
		return s
	}
	s.least = 0
	for name, value := range annotations {
		s.least += leastSize(name) + leastSize(value)
	}
	return s
}

// bulky bounds the time that the library takes.
func bulky(m *metav1.ObjectMeta) bool {
	if len(m.Labels)+len(m.Annotations)+len(m.OwnerReferences)+len(m.Finalizers)+len(m.ManagedFields) > maxEntries {
		return true
	}
	size := 0
	for name, value := range m.Labels {
		size += len(name) + len(value)
	}
	for name := range m.Annotations {
		size += len(name)
	}
	for _, name := range m.Finalizers {
		size += len(name)
	}
	for i := range m.ManagedFields {
		size += len(m.ManagedFields[i].Manager)
	}
	return size > maxNameBytes
}
