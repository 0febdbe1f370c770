package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
)

func TestAPIServerExpiresEvents(t *testing.T) {
	api := newAPIServer(readAll(t, text(event("a", "one", noon()))).spool, EventTTL)
	const n = 3 * 4096
	for i := range n {
		for kind, refused := range map[string]bool{"stored-": false, "refused-": true} {
			if err := api.put(sec(i), nil, event(fmt.Sprint(kind, i), "one", noon()), refused); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := 0
	for i := range api.events.parts {
		held += len(api.events.parts[i].slots)
	}
	if held > 2*2*3600 {
		t.Errorf("there is room for %d Events, want that of two hours at most", held)
	}
	for i, known := range map[int]bool{n - 1: true, n - 3600: true, n - 3601: false} {
		for kind, stored := range map[string]bool{"stored-": true, "refused-": false} {
			name := fmt.Sprint(kind, i)
			e, isStored, err := api.get(sec(n-1), "shop", name)
			if err != nil || (e != nil) != known || isStored != (known && stored) || e != nil && e.Name != name {
				t.Errorf("%s is known: %t, stored: %t (%v), want known: %t", name, e != nil, isStored, err, known)
			}
		}
	}
}

func TestKubectlUpdateIsNoRecorderUpdate(t *testing.T) {
	same := request("update", "a", 200, sec(1), event("a", "one", sec(0)))
	log := text(request("create", "a", 201, sec(0), event("a", "one", sec(0))))
	_, byRecorder := runTrace(t, readAll(t, log+text(same)), defaults(nil))
	same["requestURI"] = same["requestURI"].(string) + "?fieldManager=kubectl-label"
	_, byKubectl := runTrace(t, readAll(t, log+text(same)), defaults(nil))
	if byRecorder[1] != "update a: merge" || byKubectl[1] != "update a: admit" {
		t.Errorf("a recorder's became %q and kubectl's %q, want one merged and one admitted", byRecorder[1], byKubectl[1])
	}
}

// TestCoreRecorderPatchesIncludeMessage truncates the message at creation. Afterwards only the settler may write a count,
// because a patch of the recorder would restore the whole message. Recorders of events.k8s.io send only the series.
func TestCoreRecorderPatchesIncludeMessage(t *testing.T) {
	long := strings.Repeat("m", 2000)
	core, later := repeatedEvent("core", 2, sec(1200)), event("later", long, sec(0))
	core.Message = long
	later.Source, later.ReportingController, later.ReportingInstance, later.Action = corev1.EventSource{}, "queue", "queue-0", "Wait"
	later.Count, later.FirstTimestamp, later.LastTimestamp = 0, metav1.Time{}, metav1.Time{}
	later.EventTime, later.Series = metav1.NewMicroTime(sec(0)), &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(sec(1200))}
	later.Message = long[:1000]
	o := defaults(func(p *policy.Policy) { p.MaxMessageBytes = 500 })
	for _, test := range []struct {
		event *corev1.Event
		want  []string
	}{
		{core, []string{"create core: admit", "patch core: merge"}},
		{later, []string{"create later: admit", "patch later: admit"}},
	} {
		if _, got := runTrace(t, readAll(t, listOf(t, test.event)), o); !slices.Equal(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestUpsertIsACreate also covers PUT and server-side apply of a missing Event, which are CREATEs for admission.
func TestUpsertIsACreate(t *testing.T) {
	log := text(request("create", "a", 201, sec(0), event("a", "one", sec(0))))
	for _, verb := range []string{"update", "patch"} {
		upsert := request(verb, "b", 201, sec(1), event("b", "one", sec(1)))
		if _, got := runTrace(t, readAll(t, log+text(upsert)), defaults(nil)); !slices.Equal(got, []string{"create a: admit", "create b: merge"}) {
			t.Errorf("%s with status 201: %q, want a create that is merged", verb, got)
		}
	}
}
