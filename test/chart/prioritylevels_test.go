package chart

import (
	"fmt"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// flowControl returns the priority levels and FlowSchemas among objects, by kind and name.
func flowControl(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		if o.GroupVersionKind().Group == flowcontrolv1.GroupName {
			found[o.GetKind()+"/"+o.GetName()] = o
		}
	}
	return found
}

// shares returns the shares of a rendered priority level.
func shares(t *testing.T, objects []*unstructured.Unstructured, name string) int {
	t.Helper()
	var level flowcontrolv1.PriorityLevelConfiguration
	o := find(t, objects, "PriorityLevelConfiguration", name)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &level); err != nil {
		t.Fatal(err)
	}
	return int(*level.Spec.Limited.NominalConcurrencyShares)
}

// TestPriorityLevelSeats computes the seats from the rendered shares, as the API server does. They are at most the value,
// unless the level has only one share, and are less by at most the seats of one share.
func TestPriorityLevelSeats(t *testing.T) {
	for _, server := range []struct{ seats, otherShares int }{{600, 245}, {600, 400}, {1200, 245}, {3000, 245}, {200, 245}} {
		for _, seats := range [][2]int{{12, 12}, {1, 1}, {5, 25}, {25, 25}, {50, 12}} {
			r := mustRender(t, fmt.Sprintf("priorityLevels: {serverSeats: %d, otherShares: %d, eventsSystem: {seats: %d}, events: {seats: %d}}",
				server.seats, server.otherShares, seats[0], seats[1]))
			system, events := shares(t, r.Objects, "events-system"), shares(t, r.Objects, "events")
			sum := server.otherShares + system + events
			for name, level := range map[string]struct{ shares, seats int }{"events-system": {system, seats[0]}, "events": {events, seats[1]}} {
				got := (server.seats*level.shares + sum - 1) / sum
				coarse := (server.seats + sum - 1) / sum // seats of one share
				if least := level.seats - coarse; level.shares > 1 && got > level.seats || got < least {
					t.Errorf("%s: %d shares are %d of %d seats beside %d other shares, want %d, or at most %d less",
						name, level.shares, got, server.seats, server.otherShares, level.seats, coarse)
				}
			}
		}
	}
}

// TestListLevelIsOptional checks that a value of the chart and a component add the same objects.
func TestListLevelIsOptional(t *testing.T) {
	const level, schema = "PriorityLevelConfiguration/events-list", "FlowSchema/events-list"
	overlay, err := shipped.Objects("overlays/single-replica", "components/priority-level-events-list")
	if err != nil {
		t.Fatal(err)
	}
	r := mustRender(t, "priorityLevels: {eventsList: {enabled: true}}")
	all, chart, added := flowControl(mustRender(t, "").Objects), flowControl(r.Objects), flowControl(overlay)
	for where, found := range map[string]map[string]*unstructured.Unstructured{"chart": chart, "overlay": added} {
		if found[level] == nil || found[schema] == nil || len(found) != len(all)+2 || all[level] != nil || all[schema] != nil {
			t.Errorf("%s: %d objects of %d, want a level and a FlowSchema more", where, len(found), len(all))
		}
	}
	if in, by := fmt.Sprint(chart[schema].Object["spec"]), fmt.Sprint(added[schema].Object["spec"]); in != by {
		t.Errorf("the chart has %s, the component %s", in, by)
	}
	if got := shares(t, r.Objects, "events-list"); got != 5 {
		t.Errorf("%d shares, want 5", got)
	}
}

// TestPriorityLevelsAreOptional checks that values of the chart and components leave out the same objects.
func TestPriorityLevelsAreOptional(t *testing.T) {
	all := flowControl(mustRender(t, "").Objects)
	for says, tt := range map[string]struct {
		values    string
		component string
		gone      []string
	}{
		"of everyone else": {
			"priorityLevels: {events: {enabled: false}}", "components/without-priority-level-events",
			[]string{"FlowSchema/events", "PriorityLevelConfiguration/events"},
		},
		"of nodes and the control plane": {
			"priorityLevels: {eventsSystem: {enabled: false}}", "components/without-priority-level-events-system",
			[]string{"FlowSchema/events-nodes", "FlowSchema/events-control-plane", "PriorityLevelConfiguration/events-system"},
		},
	} {
		t.Run(says, func(t *testing.T) {
			overlay, err := shipped.Objects("overlays/single-replica", tt.component)
			if err != nil {
				t.Fatal(err)
			}
			for where, left := range map[string]map[string]*unstructured.Unstructured{
				"chart": flowControl(mustRender(t, tt.values).Objects), "overlay": flowControl(overlay),
			} {
				if len(left) != len(all)-len(tt.gone) {
					t.Errorf("%s: %d of %d objects are left, want %d", where, len(left), len(all), len(all)-len(tt.gone))
				}
				for _, object := range tt.gone {
					if left[object] != nil || all[object] == nil {
						t.Errorf("%s: %s is left, or was never there", where, object)
					}
				}
			}
		})
	}
}
