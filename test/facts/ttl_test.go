package facts

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
)

// An Event that is written again outlives one that is not. A patch that changes
// nothing is no write: the API server answers it without telling etcd.
func TestWritesRenewTTL(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true, EventTTL: 3 * time.Second})
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	events := client.CoreV1().Events("default")
	for _, name := range []string{"written", "patched-in-vain", "left-alone"} {
		if _, err := events.Create(t.Context(), eventtest.Core("default", name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	setCount := func(ctx context.Context, name string, count int) error {
		_, err := events.Patch(ctx, name, types.StrategicMergePatchType, fmt.Appendf(nil, `{"count": %d}`, count), metav1.PatchOptions{})
		return err
	}
	count := 1
	err = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		count++
		if err := setCount(ctx, "written", count); err != nil {
			return false, fmt.Errorf("the Event that is written again is gone: %w", err)
		}
		inVain := setCount(ctx, "patched-in-vain", 1)
		_, leftAlone := events.Get(ctx, "left-alone", metav1.GetOptions{})
		return apierrors.IsNotFound(inVain) && apierrors.IsNotFound(leftAlone), nil
	})
	if err != nil {
		t.Errorf("wait until the two Events that are not written are gone: %v", err)
	}
}
