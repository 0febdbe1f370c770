package readme

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/userenv"
)

// env is a cluster, and a directory that looks like the checkout of who reads the pages.
type env struct {
	*testing.T
	cluster *cluster.Cluster
	client  kubernetes.Interface
	dir     string
	program string   // the webhook's
	environ []string // of commands
	replica string   // where it serves metrics; empty until it is started
}

// newEnv starts the cluster. It is nil in the process that started another one for the test.
func newEnv(t *testing.T) *env {
	t.Helper()
	if !cluster.RunIsolated(t, func(ctx context.Context) error { _, err := replica.Build(ctx); return err }) {
		return nil
	}
	e := &env{T: t, cluster: cluster.ForTest(t, cluster.Options{NoAudit: true, Services: true}), dir: t.TempDir()}
	klog.SetLogger(logr.Discard()) // recorders log every Event that is refused
	ctrllog.SetLogger(logr.Discard())
	var err error
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	e.program, err = replica.Build(t.Context())
	e.must(err)
	kubeconfig, err := e.cluster.Kubeconfig()
	e.must(err)
	kubectl, err := e.cluster.KubectlPath(t.Context())
	e.must(err)
	e.environ = append(userenv.Kubectl(t.TempDir(), kubeconfig),
		fmt.Sprintf("PATH=%s:%s:%s", filepath.Dir(e.program), filepath.Dir(kubectl), os.Getenv("PATH")))
	checkout, err := filepath.Abs(root)
	e.must(err)
	e.must(os.Symlink(filepath.Join(checkout, "manifests"), filepath.Join(e.dir, "manifests")))
	e.must(os.Symlink(filepath.Join(checkout, "manifests/examples"), filepath.Join(e.dir, "policies")))
	// Every cluster has Events, and nothing can be said of none.
	_, err = e.client.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "node-1.started"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		Reason:         "Starting", Type: corev1.EventTypeNormal, Count: 1, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	e.must(err)
	return e
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// eventually waits until check holds.
func (e *env) eventually(what string, check func() bool) {
	e.Helper()
	err := wait.PollUntilContextTimeout(e.Context(), 200*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return check(), nil })
	if err != nil {
		e.Fatalf("%s: not within two minutes", what)
	}
}
