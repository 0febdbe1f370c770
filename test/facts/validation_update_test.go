package facts

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/eventtest"
)

// observed is the JSON of a time for patches.
const observed = `"2030-01-01T00:00:00.000000Z"`

// updateValidation checks that the validation of a PATCH depends on the API of the PATCH, not on the API that created the Event. The
// exceptions are the rules for Events with eventTime.
func (r *rig) updateValidation(t *testing.T) {
	r.namespace(t, "f7-update", nil)
	core, events := r.client.CoreV1().Events("f7-update"), r.client.EventsV1().Events("f7-update")
	patch := func(via, name, body string) (err error) {
		if via == "core" {
			_, err = core.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		} else {
			_, err = events.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		}
		return err
	}
	for i, test := range []struct {
		name    string
		created string // API of the CREATE, core or events
		before  string // a PATCH through core/v1 before the tested one, if any
		via     string // API of the tested PATCH, core or events
		patch   string
		invalid string // fields that the API server refuses
	}{
		{name: "count, times and message", created: "core", via: "core",
			patch: `{"count": 9, "lastTimestamp": "2030-01-01T00:00:00Z", "firstTimestamp": "2029-01-01T00:00:00Z", "message": "new"}`},
		{name: "annotations and a label", created: "core", via: "core", patch: `{"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}`},
		{name: "reason, type, source and object", created: "core", via: "core",
			patch: `{"reason": "Other", "type": "Any", "source": {"host": "h"}, "involvedObject": {"name": "other"}}`},
		{name: "an eventTime", created: "core", via: "core", patch: `{"eventTime": ` + observed + `}`,
			invalid: "reportingComponent reportingInstance action"},

		{name: "series of 2, annotations and message", created: "events", via: "core",
			patch: `{"series": {"count": 2, "lastObservedTime": ` + observed + `}, "metadata": {"annotations": {"a": "b"}}, "message": "new"}`},
		{name: "count and timestamps", created: "events", via: "core",
			patch: `{"count": 9, "firstTimestamp": "2029-01-01T00:00:00Z", "lastTimestamp": "2030-01-01T00:00:00Z"}`},
		{name: "1025 bytes of message", created: "events", via: "core", patch: `{"message": "` + strings.Repeat("m", 1025) + `"}`, invalid: "message"},

		{name: "series of 2", created: "events", via: "events", patch: `{"series": {"count": 2, "lastObservedTime": ` + observed + `}}`},
		{name: "series of 1", created: "events", via: "events", patch: `{"series": {"count": 1, "lastObservedTime": ` + observed + `}}`,
			invalid: "series.count"},
		{name: "note and count", created: "events", via: "events", patch: `{"note": "new", "deprecatedCount": 2}`, invalid: "message count"},
		{name: "reason, type and action", created: "events", via: "events", patch: `{"reason": "Other", "type": "Normal", "action": "Other"}`,
			invalid: "reason type action"},

		{name: "series after a core patch of everything", created: "events", via: "events",
			before: `{"series": {"count": 1, "lastObservedTime": ` + observed + `}, "message": "new", "count": 1, "source": {"host": "h"}}`,
			patch:  `{"series": {"count": 3, "lastObservedTime": ` + observed + `}}`},
		{name: "a label beside a series of 1", created: "events", via: "events",
			before: `{"series": {"count": 1, "lastObservedTime": ` + observed + `}}`,
			patch:  `{"metadata": {"labels": {"c": "d"}}}`},

		{name: "a series", created: "core", via: "events", patch: `{"series": {"count": 2, "lastObservedTime": ` + observed + `}}`},
		{name: "a count", created: "core", via: "events", patch: `{"deprecatedCount": 2}`, invalid: "count"},
	} {
		t.Run("created through "+test.created+", "+test.name+" through "+test.via, func(t *testing.T) {
			name := fmt.Sprintf("event-%d", i)
			var err error
			if test.created == "core" {
				_, err = core.Create(t.Context(), eventtest.Core("f7-update", name), metav1.CreateOptions{})
			} else {
				_, err = events.Create(t.Context(), eventtest.New("f7-update", name), metav1.CreateOptions{})
			}
			if err == nil && test.before != "" {
				err = patch("core", name, test.before)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = patch(test.via, name, test.patch)
			if got := invalidFields(t, err); got != test.invalid {
				t.Errorf("got invalid fields %q, want %q (error %v)", got, test.invalid, err)
			}
		})
	}
}
