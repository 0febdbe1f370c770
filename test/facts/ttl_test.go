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

// TestWritesRenewTTL checks that a write renews the TTL of an Event. A patch that changes nothing does not, because the API server answers it
// without a write to etcd.
func TestWritesRenewTTL(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true, EventTTL: 3 * time.Second})
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	events := client.CoreV1().Events("default")
	for _, name := range []string{"written", "patched-without-change", "left-alone"} {
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
			return false, fmt.Errorf("patch the Event that should not expire: %w", err)
		}
		unchanged := setCount(ctx, "patched-without-change", 1)
		_, leftAlone := events.Get(ctx, "left-alone", metav1.GetOptions{})
		return apierrors.IsNotFound(unchanged) && apierrors.IsNotFound(leftAlone), nil
	})
	if err != nil {
		t.Errorf("wait until the two Events without writes have expired: %v", err)
	}
}
