package simulate

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/eventquota/eventquota/admission/simulate/recording"
)

// patched is what a patch makes of an Event.
func patched(old *corev1.Event, patch []byte) (*corev1.Event, error) {
	if e := countedUp(old, patch); e != nil {
		return e, nil
	}
	return merged(old, patch)
}

// merged is what a patch makes of an Event: a strategic merge patch, which is what recorders send, or a merge patch,
// which does the same to Events except for lists in their metadata. What may change has the same name in both APIs.
func merged(old *corev1.Event, patch []byte) (*corev1.Event, error) {
	before, err := json.Marshal(old, recording.Lenient())
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, old)
	if err != nil {
		return nil, err
	}
	return decodeEvent(after, false)
}

// countedUp is what merged is where a patch has only what recorders of core/v1 write when they count an Event up, and nil for any
// other patch. It takes a tenth of the time. old is from the spool: its times are as precise as JSON has them.
func countedUp(old *corev1.Event, patch []byte) *corev1.Event {
	if old.Related != nil && *old.Related == (corev1.ObjectReference{}) {
		return nil // JSON leaves it out
	}
	d := jsontext.NewDecoder(bytes.NewReader(patch)) // which refuses a name that comes twice
	if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
		return nil
	}
	e := old.DeepCopy()
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil
		}
		field := name.String()
		value, err := d.ReadValue()
		if err != nil || !set(e, field, value) {
			return nil
		}
	}
	if _, err := d.ReadToken(); err != nil || d.InputOffset() != int64(len(bytes.TrimRight(patch, " \t\r\n"))) {
		return nil
	}
	return e
}

// set sets a field of an Event, if it is one that recorders count up in, with a value that everyone reads the same.
func set(e *corev1.Event, field string, value jsontext.Value) bool {
	switch kind := value.Kind(); {
	case field == "count" && kind == '0':
		n, err := strconv.ParseInt(string(value), 10, 32)
		e.Count = int32(n)
		return err == nil
	case field == "lastTimestamp" && kind == '"':
		return e.LastTimestamp.UnmarshalJSON(value) == nil
	case field == "message" && kind == '"':
		if !utf8.Valid(value) || bytes.Contains(value, []byte(`\u`)) {
			return false
		}
		return json.Unmarshal(value, &e.Message) == nil
	}
	return false
}
