package e2e

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/replica"
)

// TestWebhookAway holds I5 for a webhook that is away: Events go on being
// written, and one that is started again goes on where the stored Events are.
func TestWebhookAway(t *testing.T) {
	if !isolated(t) {
		return
	}
	e := newEnv(t, logged())
	namespace := e.namespace("away")
	create := func(pod, name string) error {
		_, err := e.client.CoreV1().Events(namespace).Create(t.Context(),
			coreEvent(namespace, pod+"-"+name, pod, "back-off"), metav1.CreateOptions{})
		return err
	}
	recorderSays := func(pod string, count int) error {
		_, err := e.client.CoreV1().Events(namespace).Patch(t.Context(), pod+"-stored",
			types.MergePatchType, fmt.Appendf(nil, `{"count":%d}`, count), metav1.PatchOptions{})
		return err
	}
	for _, pod := range []string{"untouched", "overwritten"} {
		e.must(create(pod, "stored"))
		for i := range 4 {
			if err := create(pod, fmt.Sprint("merged-", i)); !apierrors.IsAlreadyExists(err) {
				t.Fatalf("the same Event again: %v, want it merged", err)
			}
		}
	}
	e.settle()

	e.must(create("untouched", "while-away"))
	e.must(recorderSays("overwritten", 2))
	e.must(e.cluster.RemoveWebhooks(t.Context()))
	var err error
	e.replica, err = replica.Start(t.Context(), e.cluster, program())
	e.must(err)
	e.must(e.replica.Install(t.Context()))

	// Their recorder does not know of what was merged into them.
	for pod, count := range map[string]int{"untouched": 2, "overwritten": 3} {
		if err := recorderSays(pod, count); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a count below the merged one: %v, want it merged", err)
		}
	}
	e.settle()
	for pod, want := range map[string]int32{"untouched": 2 + 4, "overwritten": 3 + 4} {
		if got := e.event(namespace, pod+"-stored").Count; got != want {
			t.Errorf("settled a count of %d for %s, want its recorder's and the 4 merged: %d", got, pod, want)
		}
	}
}
