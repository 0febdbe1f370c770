// Package live tests what users see of a storm: the users of one namespace, and the screen of top in a terminal.
package live

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
	"github.com/eventquota/eventquota/test/replica"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	if _, err := replica.Build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// program returns the path of the webhook's program, which TestMain has built.
func program(t *testing.T) string {
	t.Helper()
	path, err := replica.Build(t.Context())
	must(t, err)
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check returns true. got describes the current state.
func eventually(t *testing.T, what string, check func() (done bool, got string)) {
	t.Helper()
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (done bool, _ error) {
		done, got = check()
		return done, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; got:\n%s", what, err, got)
	}
}

// quota gives each namespace five Events, and one more an hour.
const quota = `apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: few}
spec:
  limits: [{name: namespace, per: [Namespace], burst: 5, tokens: 1, interval: 1h}]
`

// apply applies the quota and creates namespaces.
func apply(t *testing.T, c *cluster.Cluster, client kubernetes.Interface, namespaces ...string) {
	t.Helper()
	_, _, err := c.Kubectl(t.Context(), quota, "apply", "-f", "-")
	must(t, err)
	_, _, err = c.Kubectl(t.Context(), "", "wait", "clustereventquota/few", "--for=condition=Ready", "--timeout=1m")
	must(t, err)
	for _, name := range namespaces {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
}

// write writes an Event of a source about a pod, and reports whether it was stored. n changes its message.
func write(ctx context.Context, client kubernetes.Interface, namespace, source, pod string, n int) (stored bool, err error) {
	now := metav1.Now()
	_, err = client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", pod, time.Now().UnixNano())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Source:         corev1.EventSource{Component: source}, Type: "Normal", Reason: "Started", Message: strings.Repeat("x", n%7),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if eventtest.Refusal(err) != "" {
		return false, nil
	}
	return err == nil, err
}
