package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

func TestOptions(t *testing.T) {
	c := ForTest(t, Options{
		NoAudit:   true,
		Scheduler: true,
		EventRateLimit: `
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits: [{type: User, qps: 1, burst: 1}]
`,
		APIServerFlags: map[string]string{"profiling": "false"},
	})
	if c.AuditLog != "" {
		t.Errorf("there is an audit log, %s", c.AuditLog)
	}
	t.Run("the scheduler reports", c.schedulerReports)
	t.Run("Events are limited", c.eventsAreLimited)
	t.Run("a flag is passed on", func(t *testing.T) {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/").DoRaw(t.Context())
		if !apierrors.IsNotFound(err) {
			t.Errorf("with profiling off, its page answers %v, want not found", err)
		}
	})
	t.Run("a user has no rights at first", func(t *testing.T) {
		config, _, err := c.User("nobody-in-particular")
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Events("default").Create(t.Context(), coreEvent("a"), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want forbidden", err)
		}
	})
}

func (c *Cluster) schedulerReports(t *testing.T) {
	_, err := c.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "nowhere-to-go"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			list, err := c.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{
				FieldSelector: "reason=FailedScheduling,involvedObject.name=nowhere-to-go",
			})
			return err == nil && len(list.Items) > 0, err
		})
	if err != nil {
		t.Errorf("wait for the scheduler's Event: %v", err)
	}
}

func (c *Cluster) eventsAreLimited(t *testing.T) {
	for range 100 { // far faster than one a second
		event := coreEvent("")
		event.GenerateName = "limited-"
		_, err := c.client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{})
		if apierrors.IsTooManyRequests(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("no Event was refused")
}
