package e2e

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/storm/controller"
)

// TestControllerRuntimeRecorder runs a controller whose object changes before each Event. The recorder of controller-runtime
// makes a new Event for each version of the object, and the API server stores them all. With eventquota it stores one, with the
// exact count (I1) and few writes (I2), and no answer makes the recorder try again (I4). The annotations of merged Events are lost.
func TestControllerRuntimeRecorder(t *testing.T) {
	t.Parallel()
	const changes, repeats = 200, 5
	e := newEnv(t)

	begun := time.Now()
	answers := e.runController("with", changes, repeats)
	e.checkNoneFailed()
	e.stopReplica()
	e.checkWriteInterval(begun)
	// The first repeat is of the stored Event. A repeat of a merged Event costs two requests.
	want := map[string]int64{"create 201": 1, "patch 400": 1, "create 409": changes - 1, "patch 404": repeats - 1, "create 400": repeats - 1}
	if !maps.Equal(answers, want) {
		t.Errorf("with eventquota, the API server answered %v, want %v", answers, want)
	}
	stored := e.stored("with")
	if len(stored) != 1 {
		t.Fatalf("with eventquota, %d Events are stored, want 1", len(stored))
	}
	if n := e.reportedOccurrences("with"); n != changes+repeats {
		t.Errorf("the stored Event reports %d occurrences, want %d", n, changes+repeats)
	}
	if change := stored[0].Annotations[controller.ChangeAnnotation]; change != "1" {
		t.Errorf("the stored Event has the annotation of change %q, want that of the first", change)
	}

	e.must(e.cluster.RemoveWebhooks(t.Context()))
	answers = e.runController("without", changes, repeats)
	if want := map[string]int64{"create 201": changes, "patch 200": repeats}; !maps.Equal(answers, want) {
		t.Errorf("without eventquota, the API server answered %v, want %v", answers, want)
	}
	stored = e.stored("without")
	versions := map[string]bool{}
	for i := range stored {
		versions[stored[i].InvolvedObject.ResourceVersion] = true
	}
	if len(stored) != changes || len(versions) != changes {
		t.Errorf("without eventquota, %d Events about %d versions are stored, want %d of each", len(stored), len(versions), changes)
	}
	if n := e.reportedOccurrences("without"); n != changes+repeats {
		t.Errorf("without eventquota, the stored Events report %d occurrences, want %d", n, changes+repeats)
	}
}

// runController runs a controller.Storm in a new namespace, as a user of its own. It returns how often the API server gave each
// answer about its Events.
func (e *env) runController(namespace string, changes, repeats int) map[string]int64 {
	e.Helper()
	user := "controller-" + namespace
	config, _, err := e.cluster.User(user, "system:masters")
	e.must(err)
	e.must(controller.Storm{Namespace: e.namespace(namespace), Changes: changes, Repeats: repeats}.Run(e.Context(), config))
	answers := map[string]int64{}
	for request, n := range e.audit().Requests {
		if request.User == user {
			answers[fmt.Sprint(request.Verb, " ", request.Code)] += n
		}
	}
	return answers
}
