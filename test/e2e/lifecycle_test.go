package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/replica"
)

// TestWebhookAway holds I5 for a webhook that is killed: Events go on being
// written, and one that is started again goes on where the stored Events are.
func TestWebhookAway(t *testing.T) {
	e := newEnv(t, logged())
	namespace := e.namespace("away")
	events := e.client.CoreV1().Events(namespace)
	create := func(name string) {
		t.Helper()
		_, err := events.Create(t.Context(), coreEvent(namespace, name, "web", "back-off"), metav1.CreateOptions{})
		e.must(err)
	}
	create("stored")
	for i := range 4 {
		_, err := events.Create(t.Context(), coreEvent(namespace, fmt.Sprintf("merged-%d", i), "web", "back-off"), metav1.CreateOptions{})
		if err == nil {
			t.Fatalf("the same Event again was stored, want it merged")
		}
	}
	e.settle()
	if got := e.event(namespace, "stored"); got.Count != 5 {
		t.Fatalf("settled a count of %d, want 5", got.Count)
	}

	create("while-away") // the API server lets it through
	e.must(e.cluster.RemoveWebhooks(t.Context()))
	program, err := replica.Build(t.Context(), t.TempDir())
	e.must(err)
	e.replica, err = replica.Start(t.Context(), e.cluster, program)
	e.must(err)
	e.must(e.replica.Install(t.Context()))

	// The recorder of "stored" does not know of what was merged into it.
	_, err = events.Patch(t.Context(), "stored", types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
	if err == nil {
		t.Error("a count below the merged one was stored, want it merged")
	}
	e.settle()
	if got := e.event(namespace, "stored"); got.Count != 6 {
		t.Errorf("settled a count of %d, want the 5 from before and 1 more", got.Count)
	}
}
