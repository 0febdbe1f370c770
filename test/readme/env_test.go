package readme

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/cluster"
)

// programsVariable tells the process in the network namespace where the webhook was built.
const programsVariable = "EVENTQUOTA_TEST_PROGRAMS"

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
	programs := os.Getenv(programsVariable)
	if programs == "" {
		programs = t.TempDir()
		t.Setenv(programsVariable, programs)
	}
	if !cluster.Isolated(t, func(ctx context.Context) error { return build(ctx, programs) }) {
		return nil
	}
	e := &env{T: t, cluster: cluster.ForTest(t, cluster.Options{NoAudit: true, Services: true}), dir: t.TempDir()}
	klog.SetLogger(logr.Discard()) // recorders log every Event that is refused
	ctrllog.SetLogger(logr.Discard())
	var err error
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	e.program = filepath.Join(programs, "eventquota")
	kubeconfig, err := e.cluster.Kubeconfig()
	e.must(err)
	kubectl, err := e.cluster.KubectlPath(t.Context())
	e.must(err)
	e.environ = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir(), "KUBERC=off", "KUBECACHEDIR=",
		fmt.Sprintf("PATH=%s:%s:%s", programs, filepath.Dir(kubectl), os.Getenv("PATH")))
	checkout, err := filepath.Abs(root)
	e.must(err)
	e.must(os.Symlink(filepath.Join(checkout, "manifests"), filepath.Join(e.dir, "manifests")))
	e.must(os.Symlink(filepath.Join(checkout, "manifests/examples"), filepath.Join(e.dir, "policies")))
	return e
}

// build builds the webhook's program into a directory.
func build(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "eventquota"), "./cmd/webhook")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the webhook: %w\n%s", err, output)
	}
	return nil
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
