// Package valid knows which Events the API server's validation refuses. A webhook in the
// mutating phase is asked about an Event before that validation runs.
package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/names"
)

// Sizes in bytes, for Events with eventTime.
const (
	maxFieldBytes   = 128 // of reason, action and reportingInstance
	maxMessageBytes = 1024
)

// maxQualifiedNameBytes is the length of a DNS subdomain, a slash and a name of 63 bytes.
const maxQualifiedNameBytes = content.DNS1123SubdomainMaxLength + 1 + 63

// Rejects reports whether the API server's validation is sure to refuse a CREATE of e, so that no Event is stored that was
// taken for an invalid one. The Event is as in a review of the mutating phase; namespace is that of the request, and
// throughEventsAPI says that the client used events.k8s.io/v1. The rules are those of Kubernetes 1.34 to 1.37.
//
// What is not refused here may still be, because a review does not show everything:
//   - a time in the first second of the year 1 is set for the API server, and null in the review;
//   - a byte of a protobuf request that is not UTF-8 is U+FFFD in the review, which has three;
//   - a resourceVersion is refused in a POST and ignored in a PUT;
//   - managedFields are not looked at, nor other metadata of more than 4 KiB;
//   - events.k8s.io/v1 takes no finalizer without a prefix, but those of Kubernetes;
//   - etcd has a limit of its own for the size of an Event.
func Rejects(e *corev1.Event, namespace string, throughEventsAPI bool) bool {
	return !fieldsValid(e, namespace, throughEventsAPI) || !metadataValid(&e.ObjectMeta, namespace, throughEventsAPI)
}

func fieldsValid(e *corev1.Event, namespace string, throughEventsAPI bool) bool {
	switch {
	case throughEventsAPI:
		return validForEventsAPI(e) && validWithEventTime(e, namespace)
	case e.EventTime.IsZero() && (e.InvolvedObject.Namespace == namespace ||
		e.InvolvedObject.Namespace == "" && namespace == metav1.NamespaceDefault): // about an object of the cluster
		return true
	}
	return validWithEventTime(e, namespace) // one in year 1 may be there
}

// validWithEventTime has the rules for an Event with eventTime, of either API.
func validWithEventTime(e *corev1.Event, namespace string) bool {
	named := func(text string) bool { return text != "" && withinBytes(maxFieldBytes, text) }
	return (e.InvolvedObject.Namespace != "" || namespace == metav1.NamespaceDefault || namespace == metav1.NamespaceSystem) &&
		isQualifiedName(e.ReportingController) && named(e.ReportingInstance) && named(e.Action) && named(e.Reason) &&
		withinBytes(maxMessageBytes, e.Message)
}

// validForEventsAPI has the rules that only events.k8s.io/v1 adds.
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
		// Without a prefix it is spelled like the value of a label, which costs no allocation.
		return len(content.IsLabelValue(name)) == 0
	}
	return len(content.IsLabelKey(name)) == 0
}

// withinBytes is false when text had more than limit bytes in the request, where each U+FFFD of it may have been one byte.
func withinBytes(limit int, text string) bool {
	const replacement = "\uFFFD"
	return len(text) <= limit || len(text)-(len(replacement)-1)*strings.Count(text, replacement) <= limit
}

// maxMetadataBytes bounds the metadata that are looked at, in bytes: the library needs about a microsecond for a name of a
// label, and a request has room for 300,000 of them.
const maxMetadataBytes = 4 << 10

// metadataValid has the rules for what is the same in all objects. Nearly all Events have a name and managedFields, and
// nothing else, and need no library.
func metadataValid(m *metav1.ObjectMeta, namespace string, throughEventsAPI bool) bool {
	name := validatePathSegment
	if throughEventsAPI {
		name = validateSubdomain
	}
	switch {
	case m.Name == "" && m.GenerateName == "", m.Name != "" && len(name(m.Name, false)) > 0:
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
	return len(validation.ValidateObjectMeta(&stored, true, name, nil)) == 0
}

// validatePathSegment is the rule for names of Events in core/v1.
func validatePathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validateSubdomain is the rule for names of Events in events.k8s.io/v1. It is added to that of core/v1.
func validateSubdomain(name string, prefix bool) []string {
	if problems := validatePathSegment(name, prefix); len(problems) > 0 {
		return problems
	}
	// The rule for prefixes takes a trailing dash off first.
	if len(name) > content.DNS1123SubdomainMaxLength+1 {
		return []string{content.MaxLenError(content.DNS1123SubdomainMaxLength)}
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}
