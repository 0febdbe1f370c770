// Package validation predicts which Events the API server's validation refuses. A webhook in the mutating phase is called
// before that validation runs.
package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/names"
)

// The API server's limits in bytes, for Events with eventTime.
const (
	maxFieldBytes   = 128 // of reason, action and reportingInstance
	maxMessageBytes = 1024
)

// maxQualifiedNameBytes is the longest qualified name: a DNS subdomain, a slash and a name of 63 bytes.
const maxQualifiedNameBytes = content.DNS1123SubdomainMaxLength + 1 + 63

// Rejects reports whether the API server's validation is certain to refuse a CREATE of e: an Event that it rejects is never
// stored. e is the Event as in a review of the mutating phase, namespace the namespace of the request, and throughEventsAPI
// reports whether the client used events.k8s.io/v1. The rules are those of Kubernetes 1.31 to 1.37.
//
// The API server may also refuse Events that Rejects accepts, because a review does not show everything:
//   - A time in the first second of the year 1 is set for the API server, but null in the review.
//   - A byte of a protobuf request that is not UTF-8 is U+FFFD in the review, which has three bytes.
//   - A resourceVersion is refused in a POST and ignored in a PUT.
//   - managedFields are not checked, nor other metadata of more than 4 KiB.
//   - events.k8s.io/v1 accepts finalizers without a prefix only if they are Kubernetes' own.
//   - etcd has its own limit for the size of an Event.
func Rejects(e *corev1.Event, namespace string, throughEventsAPI bool) bool {
	return !fieldsValid(e, namespace, throughEventsAPI) || !metadataValid(&e.ObjectMeta, namespace, throughEventsAPI)
}

func fieldsValid(e *corev1.Event, namespace string, throughEventsAPI bool) bool {
	switch {
	case throughEventsAPI:
		return validForEventsAPI(e) && validWithEventTime(e, namespace)
	case e.EventTime.IsZero() && (e.InvolvedObject.Namespace == namespace ||
		e.InvolvedObject.Namespace == "" && namespace == metav1.NamespaceDefault): // about a cluster-scoped object
		return true
	}
	return validWithEventTime(e, namespace) // a zero eventTime may stand for one in the first second of year 1
}

// validWithEventTime checks the rules for an Event with eventTime, in either API.
func validWithEventTime(e *corev1.Event, namespace string) bool {
	named := func(text string) bool { return text != "" && withinBytes(maxFieldBytes, text) }
	return (e.InvolvedObject.Namespace != "" || namespace == metav1.NamespaceDefault || namespace == metav1.NamespaceSystem) &&
		isQualifiedName(e.ReportingController) && named(e.ReportingInstance) && named(e.Action) && named(e.Reason) &&
		withinBytes(maxMessageBytes, e.Message)
}

// validForEventsAPI checks the rules that events.k8s.io/v1 adds.
func validForEventsAPI(e *corev1.Event) bool {
	return (e.Type == corev1.EventTypeNormal || e.Type == corev1.EventTypeWarning) &&
		(e.Series == nil || e.Series.Count >= 2) &&
		e.FirstTimestamp.IsZero() && e.LastTimestamp.IsZero() && e.Count == 0 && e.Source == corev1.EventSource{}
}

func isQualifiedName(name string) bool {
	if name == "" || len(name) > maxQualifiedNameBytes {
		return false
	}
	if !strings.Contains(name, "/") {
		// A name without a prefix has the syntax of a label value, which is checked without an allocation.
		return len(content.IsLabelValue(name)) == 0
	}
	return len(content.IsLabelKey(name)) == 0
}

// withinBytes reports whether text may have had at most limit bytes in the request, where each U+FFFD may have been one byte.
func withinBytes(limit int, text string) bool {
	const replacement = "\uFFFD"
	return len(text) <= limit || len(text)-(len(replacement)-1)*strings.Count(text, replacement) <= limit
}

// maxMetadataBytes bounds the size of metadata that are checked: the library takes about a microsecond for the name of one
// label, and a request can have 300,000 labels.
const maxMetadataBytes = 4 << 10

// metadataValid checks the metadata, by rules that all objects share. Nearly all Events have only a name and managedFields;
// they are checked without the library.
func metadataValid(m *metav1.ObjectMeta, namespace string, throughEventsAPI bool) bool {
	validateName := validatePathSegment
	if throughEventsAPI {
		validateName = validateSubdomain
	}
	switch {
	case m.Name == "" && m.GenerateName == "", m.Name != "" && len(validateName(m.Name, false)) > 0:
		return false
	case m.GenerateName == "" && m.Generation == 0 &&
		len(m.Labels)+len(m.Annotations)+len(m.OwnerReferences)+len(m.Finalizers) == 0:
		return true
	}
	stored := *m
	stored.Namespace, stored.ManagedFields = namespace, nil
	if stored.Size() > maxMetadataBytes {
		return true
	}
	if stored.Name == "" {
		stored.Name = stored.GenerateName[:min(len(stored.GenerateName), names.MaxGeneratedNameLength)] + "xxxxx"
	}
	return len(validation.ValidateObjectMeta(&stored, true, validateName, nil)) == 0
}

// validatePathSegment checks a name by the rule for Events of core/v1.
func validatePathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validateSubdomain checks a name by the rules for Events of events.k8s.io/v1, which include those of core/v1.
func validateSubdomain(name string, prefix bool) []string {
	if problems := validatePathSegment(name, prefix); len(problems) > 0 {
		return problems
	}
	// The rule for prefixes removes a trailing dash first.
	if len(name) > content.DNS1123SubdomainMaxLength+1 {
		return []string{content.MaxLenError(content.DNS1123SubdomainMaxLength)}
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}
