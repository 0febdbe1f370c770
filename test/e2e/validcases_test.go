package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Go's zero time becomes null in JSON. To send it as a timestamp, yearOne replaces zeroTimeMarker, the encoding of
// markedTime.
const (
	zeroTimeMarker = "1111-11-11T11:11:11"
	yearOne        = "0001-01-01T00:00:00"
)

func markedTime() time.Time { return time.Date(1111, 11, 11, 11, 11, 11, 0, time.UTC) }

// validCase is one change of a valid Event.
type validCase struct {
	name   string
	change func(e *corev1.Event)
	// hidden names the write paths on which the API server refuses the Event for a reason that no review shows.
	hidden []string
}

func bytesOf(n int) string { return strings.Repeat("a", n) }

func owner(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: "1", Controller: new(true)}
}

// managedFieldsEntry returns an entry of managedFields with the fields of m. Defaults make it valid.
func managedFieldsEntry(m metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	m.APIVersion, m.FieldsV1 = "v1", metav1.NewFieldsV1(`{"f:reason":{}}`)
	if m.Operation == "" {
		m.Operation = metav1.ManagedFieldsOperationUpdate
	}
	if m.FieldsType == "" {
		m.FieldsType = "FieldsV1"
	}
	return []metav1.ManagedFieldsEntry{m}
}

// validTexts returns values for text fields: special cases of names, and lengths around every limit.
func validTexts() []string {
	return []string{
		"", "a", ".", "..", "...", "a/b", "/a", "a/", "a/b/c", "a%b", "A", "A/b", "a_b", "_a", "-a", "a-", "a--", "--", "-", "/-", "a.", ".a", "a..b", "a.-b",
		"example.com/A_b.c", "a b", " ", "\u00e9", "\u212a", "a/\u212a", "a\x00", "\ufffd", "a\n", bytesOf(58), bytesOf(59), bytesOf(63), bytesOf(64), bytesOf(128), bytesOf(129), bytesOf(253), bytesOf(254),
		bytesOf(253) + "-", bytesOf(252) + "-", bytesOf(254) + "-", bytesOf(57) + ".-", bytesOf(57) + "-.b", bytesOf(58) + "/", strings.Repeat("\u00e9", 30), strings.Repeat("\u00e9", 64),
		bytesOf(63) + "/" + bytesOf(63), bytesOf(253) + "/" + bytesOf(63), bytesOf(254) + "/" + bytesOf(63), bytesOf(253) + "/" + bytesOf(64), bytesOf(1000), "orphan", "foregroundDeletion", "kubernetes",
	}
}

// validTextFields returns a change for every text field.
func validTextFields() map[string]func(e *corev1.Event, text string) {
	return map[string]func(e *corev1.Event, text string){
		"name":                       func(e *corev1.Event, text string) { e.Name = text },
		"generateName":               func(e *corev1.Event, text string) { e.Name, e.GenerateName = "", text },
		"generateName beside a name": func(e *corev1.Event, text string) { e.GenerateName = text },
		"label":                      func(e *corev1.Event, text string) { e.Labels = map[string]string{text: "v"} },
		"label's value":              func(e *corev1.Event, text string) { e.Labels = map[string]string{"l": text} },
		"annotation":                 func(e *corev1.Event, text string) { e.Annotations = map[string]string{text: "v", "z": ""} },
		"annotation's value":         func(e *corev1.Event, text string) { e.Annotations = map[string]string{"a": text} },
		"finalizer":                  func(e *corev1.Event, text string) { e.Finalizers = append(e.Finalizers, "example.com/a", text) },
		"manager": func(e *corev1.Event, text string) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Manager: text})
		},
		"owner's apiVersion": func(e *corev1.Event, text string) {
			o := owner("a")
			o.APIVersion = text
			e.OwnerReferences = append(e.OwnerReferences, o)
		},
		"involvedObject.namespace": func(e *corev1.Event, text string) { e.InvolvedObject.Namespace = text },
		"involvedObject": func(e *corev1.Event, text string) {
			e.InvolvedObject = corev1.ObjectReference{Kind: text, Namespace: e.InvolvedObject.Namespace, Name: text, APIVersion: text, FieldPath: text}
		},
		"related":             func(e *corev1.Event, text string) { e.Related = &corev1.ObjectReference{Namespace: text, Name: text} },
		"reportingController": func(e *corev1.Event, text string) { e.ReportingController = text },
		"reportingInstance":   func(e *corev1.Event, text string) { e.ReportingInstance = text },
		"action":              func(e *corev1.Event, text string) { e.Action = text },
		"reason":              func(e *corev1.Event, text string) { e.Reason = text },
		"message":             func(e *corev1.Event, text string) { e.Message = text },
		"type":                func(e *corev1.Event, text string) { e.Type = text },
	}
}

func validCases() []validCase {
	cases := validSpecialCases()
	for field, change := range validTextFields() {
		for _, text := range validTexts() {
			cases = append(cases, validCase{name: fmt.Sprintf("%s %.40q (%d bytes)", field, text, len(text)), change: func(e *corev1.Event) { change(e, text) }})
		}
	}
	for _, namespace := range []string{validNamespace, "default", "kube-system"} {
		for _, involved := range []string{"", validNamespace, "default", "kube-system"} {
			cases = append(cases, validCase{name: fmt.Sprintf("about %q in %s", involved, namespace), change: func(e *corev1.Event) {
				e.Namespace, e.InvolvedObject.Namespace = namespace, involved
			}})
		}
	}
	for what, change := range map[string]func(o *metav1.OwnerReference){
		"an owner":                       func(*metav1.OwnerReference) {},
		"an owner without kind":          func(o *metav1.OwnerReference) { o.Kind = "" },
		"an owner without name":          func(o *metav1.OwnerReference) { o.Name = "" },
		"an owner without uid":           func(o *metav1.OwnerReference) { o.UID = "" },
		"an Event as owner":              func(o *metav1.OwnerReference) { o.Kind = "Event" },
		"an Event as owner, the new API": func(o *metav1.OwnerReference) { o.APIVersion, o.Kind = "events.k8s.io/v1", "Event" },
	} {
		cases = append(cases, validCase{name: what, change: func(e *corev1.Event) {
			o := owner("a")
			change(&o)
			e.OwnerReferences = []metav1.OwnerReference{o}
		}})
	}
	return cases
}

// changeAtRandom changes one field of e, mostly a text field.
func changeAtRandom(e *corev1.Event, random *rand.Rand) {
	if random.IntN(4) == 0 {
		cases := validSpecialCases()
		for c := cases[random.IntN(len(cases))]; ; c = cases[random.IntN(len(cases))] {
			if c.hidden == nil {
				c.change(e)
				return
			}
		}
	}
	fields, texts := validTextFields(), validTexts()
	names := []string{
		"name", "generateName", "generateName beside a name", "label", "label's value", "annotation", "finalizer", "manager", "owner's apiVersion",
		"involvedObject.namespace", "reportingController", "reportingInstance", "action", "reason", "message", "type", "involvedObject",
	}
	// Half of the values are valid, so that later changes matter.
	text := texts[random.IntN(len(texts))]
	if random.IntN(2) == 0 {
		text = "example.com/a"
	}
	fields[names[random.IntN(len(names))]](e, text)
}

// validSpecialCases returns changes of other fields, and those that a review hides.
func validSpecialCases() []validCase {
	both, all := []string{"core with eventTime", "events"}, []string{"core", "core with eventTime", "events"}
	events := []string{"events"}
	series := func(count int32) func(e *corev1.Event) {
		return func(e *corev1.Event) {
			e.Series = &corev1.EventSeries{Count: count, LastObservedTime: metav1.NowMicro()}
		}
	}
	return []validCase{
		{name: "as sent", change: func(*corev1.Event) {}},
		{name: "a series of -1", change: series(-1)},
		{name: "a series of 0", change: series(0)},
		{name: "a series of 1", change: series(1)},
		{name: "a series of 2", change: series(2)},
		{name: "an empty series", change: func(e *corev1.Event) { e.Series = &corev1.EventSeries{} }},
		{name: "no count", change: func(e *corev1.Event) { e.Count = 0 }},
		{name: "a count", change: func(e *corev1.Event) { e.Count = 1 }},
		{name: "a negative count", change: func(e *corev1.Event) { e.Count = -1 }},
		{name: "a component", change: func(e *corev1.Event) { e.Source = corev1.EventSource{Component: "c"} }},
		{name: "a host", change: func(e *corev1.Event) { e.Source = corev1.EventSource{Host: "h"} }},
		{name: "a firstTimestamp", change: func(e *corev1.Event) { e.FirstTimestamp = metav1.Now() }},
		{name: "a lastTimestamp", change: func(e *corev1.Event) { e.LastTimestamp = metav1.Now() }},
		{name: "no timestamps", change: func(e *corev1.Event) { e.FirstTimestamp, e.LastTimestamp = metav1.Time{}, metav1.Time{} }},
		{name: "an eventTime of 1970", change: func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(time.Unix(0, 0)) }},
		{name: "1,024 bytes of message", change: func(e *corev1.Event) { e.Message = bytesOf(1024) }},
		{name: "1,025 bytes of message", change: func(e *corev1.Event) { e.Message = bytesOf(1025) }},
		{name: "1,026 bytes in 342 runes", change: func(e *corev1.Event) { e.Message = strings.Repeat("\u20ac", 342) }},
		{name: "a generation", change: func(e *corev1.Event) { e.Generation = 5 }},
		{name: "a negative generation", change: func(e *corev1.Event) { e.Generation = -1 }},
		{name: "a uid", change: func(e *corev1.Event) { e.UID = "a/b" }},
		{name: "a creationTimestamp", change: func(e *corev1.Event) { e.CreationTimestamp = metav1.Now() }},
		{name: "a deletionTimestamp", change: func(e *corev1.Event) {
			e.DeletionTimestamp, e.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(-1))
		}},
		{name: "a resourceVersion of 0", change: func(e *corev1.Event) { e.ResourceVersion = "0" }},
		{name: "256 KiB of annotations", change: func(e *corev1.Event) { e.Annotations = map[string]string{"a": "", "b": bytesOf(256<<10 - 2)} }},
		{name: "a byte more of annotations", change: func(e *corev1.Event) { e.Annotations = map[string]string{"a": "", "b": bytesOf(256<<10 - 1)} }},
		{name: "two owners", change: func(e *corev1.Event) {
			e.OwnerReferences = []metav1.OwnerReference{owner("a"), {APIVersion: "v1", Kind: "Pod", Name: "b", UID: "1"}}
		}},
		{name: "two controllers", change: func(e *corev1.Event) { e.OwnerReferences = []metav1.OwnerReference{owner("a"), owner("b")} }},
		{name: "the same controller twice", change: func(e *corev1.Event) { e.OwnerReferences = []metav1.OwnerReference{owner("a"), owner("a")} }},
		{name: "orphaned and deleted dependents", change: func(e *corev1.Event) { e.Finalizers = []string{"orphan", "foregroundDeletion"} }},
		{name: "no finalizer of length 0", change: func(e *corev1.Event) { e.Finalizers = []string{} }},
		{name: "another operation", change: func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Operation: "Delete"})
		}},
		{name: "the operation Apply", change: func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Operation: "Apply"})
		}},
		{name: "other fieldsType", change: func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{FieldsType: "FieldsV2"})
		}},
		{name: "256 bytes of subresource", change: func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Subresource: bytesOf(256)})
		}},
		{name: "257 bytes of subresource", change: func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Subresource: bytesOf(257)})
		}},

		{name: "no eventTime", change: func(e *corev1.Event) { e.EventTime = metav1.MicroTime{} }, hidden: events},
		{name: "an eventTime of year 1", change: func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(markedTime()) }, hidden: []string{"core"}},
		{name: "an eventTime of year 1 and another namespace", change: func(e *corev1.Event) {
			e.EventTime, e.InvolvedObject.Namespace = metav1.NewMicroTime(markedTime()), "other"
		}},
		{name: "a series without a time", change: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 2} }, hidden: events},
		{name: "a series of year 1", change: func(e *corev1.Event) {
			e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(markedTime())}
		}},
		{name: "a firstTimestamp of year 1", change: func(e *corev1.Event) { e.FirstTimestamp = metav1.NewTime(markedTime()) }, hidden: events},
		{name: "a lastTimestamp of year 1", change: func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(markedTime()) }, hidden: events},
		{name: "1,026 bytes that may have been less", change: func(e *corev1.Event) { e.Message = strings.Repeat("\ufffd", 342) }, hidden: both},
		{name: "a resourceVersion", change: func(e *corev1.Event) { e.ResourceVersion = "5" }, hidden: all},
		{name: "2 MiB, too much for etcd", change: func(e *corev1.Event) { e.Message = bytesOf(2 << 20) }, hidden: []string{"core"}},
		{name: "more labels than validation.Rejects checks", change: func(e *corev1.Event) {
			e.Labels = map[string]string{"-": ""}
			for i := range 500 {
				e.Labels[fmt.Sprint(i)] = ""
			}
		}, hidden: all},
	}
}

// isUncheckedRule reports whether the API server refused an Event by a rule that validation.Rejects omits, because
// hardly any Event breaks it.
func isUncheckedRule(refusal error) bool {
	rules := []string{"metadata.managedFields", "metadata.finalizers", "metadata.annotations: Too long"}
	return slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(fmt.Sprint(refusal), rule) })
}
