package simulate

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/eventquota/eventquota/admission/simulate/recording"
)

// patched returns old with patch applied.
func patched(old *corev1.Event, patch []byte) (*corev1.Event, error) {
	if e := countedUp(old, patch); e != nil {
		return e, nil
	}
	return merged(old, patch)
}

// merged returns old with a strategic merge patch or a merge patch applied. Recorders send the former. The two differ for
// Events only in metadata lists. Fields that may change have the same names in both APIs.
func merged(old *corev1.Event, patch []byte) (*corev1.Event, error) {
	if jsontext.Value(patch).Kind() != '{' {
		return nil, errors.New("only strategic merge patches and merge patches are simulated")
	}
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

// countedUp is a fast path of merged, which takes ten times as long. It supports patches with only those fields that core/v1
// recorders write to increase the count, and returns nil for others. old must come from the spool, so that its times have the
// precision of JSON.
func countedUp(old *corev1.Event, patch []byte) *corev1.Event {
	if old.Related != nil && *old.Related == (corev1.ObjectReference{}) {
		return nil // JSON leaves it out
	}
	d := jsontext.NewDecoder(bytes.NewReader(patch)) // rejects duplicate names
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

// set sets a field of an Event. It reports false if recorders do not write the field or the value is ambiguous.
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
