package facts

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/eventtest"
)

// observed is a time of a series in a patch.
const observed = `"2030-01-01T00:00:00.000000Z"`

// Which API the PATCH came through decides, not which API made the Event, except for
// what eventTime brings with it.
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
		madeBy  string // API of the CREATE
		settled string // a PATCH by core/v1 in between, if any
		via     string // API of the PATCH
		patch   string
		invalid string
	}{
		{name: "count, times and message", madeBy: "core", via: "core",
			patch: `{"count": 9, "lastTimestamp": "2030-01-01T00:00:00Z", "firstTimestamp": "2029-01-01T00:00:00Z", "message": "new"}`},
		{name: "annotations and a label", madeBy: "core", via: "core", patch: `{"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}`},
		{name: "reason, type, source and object", madeBy: "core", via: "core",
			patch: `{"reason": "Other", "type": "Any", "source": {"host": "h"}, "involvedObject": {"name": "other"}}`},
		{name: "an eventTime", madeBy: "core", via: "core", patch: `{"eventTime": ` + observed + `}`,
			invalid: "reportingComponent reportingInstance action"},

		{name: "series of 2, annotations and message", madeBy: "events", via: "core",
			patch: `{"series": {"count": 2, "lastObservedTime": ` + observed + `}, "metadata": {"annotations": {"a": "b"}}, "message": "new"}`},
		{name: "count and timestamps", madeBy: "events", via: "core",
			patch: `{"count": 9, "firstTimestamp": "2029-01-01T00:00:00Z", "lastTimestamp": "2030-01-01T00:00:00Z"}`},
		{name: "1025 bytes of message", madeBy: "events", via: "core", patch: `{"message": "` + strings.Repeat("m", 1025) + `"}`, invalid: "message"},

		{name: "series of 2", madeBy: "events", via: "events", patch: `{"series": {"count": 2, "lastObservedTime": ` + observed + `}}`},
		{name: "series of 1", madeBy: "events", via: "events", patch: `{"series": {"count": 1, "lastObservedTime": ` + observed + `}}`,
			invalid: "series.count"},
		{name: "note and count", madeBy: "events", via: "events", patch: `{"note": "new", "deprecatedCount": 2}`, invalid: "message count"},
		{name: "reason, type and action", madeBy: "events", via: "events", patch: `{"reason": "Other", "type": "Normal", "action": "Other"}`,
			invalid: "reason type action"},

		{name: "series after a core patch of everything", madeBy: "events", via: "events",
			settled: `{"series": {"count": 1, "lastObservedTime": ` + observed + `}, "message": "new", "count": 1, "source": {"host": "h"}}`,
			patch:   `{"series": {"count": 3, "lastObservedTime": ` + observed + `}}`},
		{name: "a label beside a series of 1", madeBy: "events", via: "events",
			settled: `{"series": {"count": 1, "lastObservedTime": ` + observed + `}}`,
			patch:   `{"metadata": {"labels": {"c": "d"}}}`},

		{name: "a series", madeBy: "core", via: "events", patch: `{"series": {"count": 2, "lastObservedTime": ` + observed + `}}`},
		{name: "a count", madeBy: "core", via: "events", patch: `{"deprecatedCount": 2}`, invalid: "count"},
	} {
		t.Run("made by "+test.madeBy+", "+test.name+" by "+test.via, func(t *testing.T) {
			name := fmt.Sprintf("event-%d", i)
			var err error
			if test.madeBy == "core" {
				_, err = core.Create(t.Context(), eventtest.Core("f7-update", name), metav1.CreateOptions{})
			} else {
				_, err = events.Create(t.Context(), eventtest.New("f7-update", name), metav1.CreateOptions{})
			}
			if err == nil && test.settled != "" {
				err = patch("core", name, test.settled)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = patch(test.via, name, test.patch)
			if got := invalidFields(t, err); got != test.invalid {
				t.Errorf("%q is invalid, want %q: %v", got, test.invalid, err)
			}
		})
	}
}
