package sink

import (
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// record is a copy of one Event write. It does not change once it is queued, except for undelivered.
type record struct {
	namespace string
	// encoded is a LogRecord of OTLP.
	encoded []byte
	// occurrences is how many it stands for: for a refused write, those that no other record and no stored Event reports.
	occurrences int64
	// notice reports these occurrences too; the zero value for none.
	notice notice
	// undelivered is set once some output has not delivered the record.
	undelivered atomic.Bool
}

// recordOverheadBytes is the size of a record without its encoding, including its entries in lists.
const recordOverheadBytes = 320

func (r *record) queuedBytes() int64 { return recordOverheadBytes + int64(len(r.encoded)) }

// maxTime bounds the times of Events, in seconds: beyond it, nanoseconds overflow.
const maxTime = 1 << 33

// Names of attributes: those of OpenTelemetry's semantic conventions, those that its collector's receivers of Events use, and ours.
const (
	attrUID           = "log.record.uid"
	attrNamespace     = "k8s.namespace.name"
	attrName          = "k8s.event.name"
	attrEventUID      = "k8s.event.uid"
	attrReason        = "k8s.event.reason"
	attrAction        = "k8s.event.action"
	attrStart         = "k8s.event.start_time"
	attrCount         = "k8s.event.count"
	attrKind          = "k8s.object.kind"
	attrObject        = "k8s.object.name"
	attrObjectUID     = "k8s.object.uid"
	attrFieldPath     = "k8s.object.fieldpath"
	attrAPIVersion    = "k8s.object.api_version"
	attrVersion       = "k8s.object.resource_version"
	attrNode          = "k8s.node.name"
	attrSource        = "eventquota.source"
	attrRelated       = "eventquota.related"
	attrLabels        = "eventquota.labels"
	attrAnnotations   = "eventquota.annotations"
	attrVerdict       = "eventquota.verdict"
	attrRule          = "eventquota.rule"
	attrBucket        = "eventquota.bucket"
	attrMergedInto    = "eventquota.merged_into.name"
	attrMergedIntoUID = "eventquota.merged_into.uid"
	attrOccurrences   = "eventquota.occurrences"
	attrUnreadable    = "eventquota.unreadable"
)

// outcome is the outcome of a write.
type outcome struct {
	verdict, rule, bucket     string
	mergedInto, mergedIntoUID string
	occurrences               int64
}

// Field numbers of OTLP messages, from opentelemetry/proto/logs/v1/logs.proto and common/v1/common.proto.
const (
	recordTime, recordSeverity, recordSeverityText, recordBody = 1, 2, 3, 5
	recordAttribute, recordObserved                            = 6, 11
	pairKey, pairValue                                         = 1, 2
	valueString, valueInt, valueMap                            = 1, 3, 6
	mapPair                                                    = 1
)

// Severity numbers of OpenTelemetry.
const severityInfo, severityWarn = 9, 13

// encode appends the LogRecord of a write to b.
func encode(b []byte, uid string, now time.Time, r *admission.Request, e *corev1.Event, f *outcome) []byte {
	at := admission.LastSeen(e)
	if s := at.Unix(); s <= 0 || s >= maxTime {
		at = now
	}
	b = protowire.AppendTag(b, recordTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, uint64(at.UnixNano()))
	b = protowire.AppendTag(b, recordObserved, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, uint64(now.UnixNano()))
	switch e.Type {
	case corev1.EventTypeNormal:
		b = protowire.AppendVarint(protowire.AppendTag(b, recordSeverity, protowire.VarintType), severityInfo)
	case corev1.EventTypeWarning:
		b = protowire.AppendVarint(protowire.AppendTag(b, recordSeverity, protowire.VarintType), severityWarn)
	}
	b = appendText(b, recordSeverityText, toValidUTF8(e.Type))
	message := toValidUTF8(e.Message)
	b = appendText(appendFieldHeader(b, recordBody, fieldSize(len(message))), valueString, message)

	b = appendString(b, attrUID, uid)
	b = appendString(b, attrNamespace, r.Namespace)
	b = appendString(b, attrName, e.Name)
	b = appendString(b, attrEventUID, string(e.UID))
	b = appendString(b, attrReason, e.Reason)
	b = appendString(b, attrAction, e.Action)
	if first := e.FirstTimestamp; !first.IsZero() {
		b = appendString(b, attrStart, first.UTC().Format(time.RFC3339))
	}
	b = appendInt(b, attrCount, admission.Occurrences(e))
	o := &e.InvolvedObject
	b = appendString(b, attrKind, o.Kind)
	b = appendString(b, attrObject, o.Name)
	b = appendString(b, attrObjectUID, string(o.UID))
	b = appendString(b, attrFieldPath, o.FieldPath)
	b = appendString(b, attrAPIVersion, o.APIVersion)
	b = appendString(b, attrVersion, o.ResourceVersion)
	component, host := admission.Source(e)
	b = appendString(b, attrSource, component)
	b = appendString(b, attrNode, host)
	if other := e.Related; other != nil {
		b = appendString(b, attrRelated, store.Object{Kind: other.Kind, Namespace: other.Namespace, Name: other.Name}.String())
	}
	b = appendMap(b, attrLabels, e.Labels)
	b = appendMap(b, attrAnnotations, e.Annotations)

	b = appendString(b, attrVerdict, f.verdict)
	b = appendString(b, attrRule, f.rule)
	b = appendString(b, attrBucket, f.bucket)
	b = appendString(b, attrMergedInto, f.mergedInto)
	b = appendString(b, attrMergedIntoUID, f.mergedIntoUID)
	b = appendInt(b, attrOccurrences, f.occurrences)
	if r.DecodeError != nil {
		b = appendString(b, attrUnreadable, store.Clip(r.DecodeError.Error(), maxErrorBytes))
	}
	return b
}

// maxErrorBytes bounds the text of an error that is kept or logged, as it may quote what clients wrote.
const maxErrorBytes = 256

// toValidUTF8 replaces invalid UTF-8 in s: protobuf texts are UTF-8, and an invalid one would make a whole batch invalid.
func toValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// fieldSize returns the encoded size of a field with n bytes of content. Field numbers here are at most 15, so the tag is one byte.
func fieldSize(n int) int { return 1 + protowire.SizeBytes(n) }

// appendFieldHeader appends the tag and length of a field with n bytes of content.
func appendFieldHeader(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(n))
}

// appendText appends a text field.
func appendText(b []byte, field protowire.Number, s string) []byte {
	return append(appendFieldHeader(b, field, len(s)), s...)
}

// pairSize returns the size of a KeyValue whose value has n bytes.
func pairSize(key string, n int) int { return fieldSize(len(key)) + fieldSize(n) }

// appendPair appends a KeyValue as a field, without its value of n bytes.
func appendPair(b []byte, field protowire.Number, key string, n int) []byte {
	b = appendFieldHeader(b, field, pairSize(key, n))
	return appendFieldHeader(appendText(b, pairKey, key), pairValue, n)
}

// appendString appends an attribute unless its value is empty.
func appendString(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	value = toValidUTF8(value)
	return appendText(appendPair(b, recordAttribute, key, fieldSize(len(value))), valueString, value)
}

func appendInt(b []byte, key string, value int64) []byte {
	b = appendPair(b, recordAttribute, key, 1+protowire.SizeVarint(uint64(value)))
	return protowire.AppendVarint(protowire.AppendTag(b, valueInt, protowire.VarintType), uint64(value))
}

// appendMap appends a map as one attribute, unless it is empty. Clients choose its keys, so they do not become names of attributes.
func appendMap(b []byte, key string, all map[string]string) []byte {
	if len(all) == 0 {
		return b
	}
	n := 0
	for name, value := range all {
		n += fieldSize(pairSize(toValidUTF8(name), fieldSize(len(toValidUTF8(value)))))
	}
	b = appendFieldHeader(appendPair(b, recordAttribute, key, fieldSize(n)), valueMap, n)
	for name, value := range all {
		name, value = toValidUTF8(name), toValidUTF8(value)
		b = appendText(appendPair(b, mapPair, name, fieldSize(len(value))), valueString, value)
	}
	return b
}
