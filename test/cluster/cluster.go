package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/test/cluster/binaries"
	"github.com/eventquota/eventquota/test/userenv"
)

// Cluster is a running control plane. All methods may be called concurrently.
type Cluster struct {
	// Config has the rights of an administrator (group system:masters) and no client-side rate limit.
	Config *rest.Config
	// AuditLog is the path of the audit log, for ReadAudit. Empty with NoAudit.
	AuditLog string
	// Version is the Kubernetes version without the v, such as 1.37.2.
	Version string
	// Dir contains all files that the control plane writes, including its logs. Stop removes it.
	Dir string

	client   kubernetes.Interface // with Config
	kubectl  kubectl              // with Config
	plane    *envtest.ControlPlane
	port     int        // of the API server on 127.0.0.1
	log      string     // path of the API server's log
	programs []*program // other programs, in the order of their start
	stop     func() error

	usersMu sync.Mutex // guards the plane's certificate authority

	// Set by a Pool: the keys that etcd had at the start, and the calls of webhooks by earlier tests.
	initial      []string
	earlierCalls map[string]WebhookCalls
}

// Start builds the control plane's programs if necessary (some minutes, see package binaries). It then starts them
// and waits a few seconds until the control plane serves. The control plane stops when ctx ends, on Stop, or when
// this process dies for any reason. If Start fails, the error contains the end of the failing program's log, and no
// process or file remains. This process, and those that it starts, no longer find a cluster of the user.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	userenv.HideCluster()
	built, err := binaries.Ensure(ctx, opts.log(), opts.programs()...)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "eventquota-cluster-")
	if err != nil {
		return nil, fmt.Errorf("make the control plane's directory: %w", err)
	}
	begun := time.Now()
	c := &Cluster{Version: built.Version, Dir: dir}
	c.stop = sync.OnceValue(c.stopAll)
	if err := c.start(ctx, built, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("start a Kubernetes %s control plane: %w", c.Version, err), c.Stop())
	}
	context.AfterFunc(ctx, func() { _ = c.Stop() })
	fmt.Fprintf(opts.log(), "control plane %s: serves on %s after %s\n",
		c.Version, c.Config.Host, time.Since(begun).Round(100*time.Millisecond))
	return c, nil
}

// Stop ends all processes and removes Dir. Every call returns the same error.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) start(ctx context.Context, built binaries.Set, opts Options) error {
	if !opts.NoAudit {
		c.AuditLog = filepath.Join(c.Dir, "audit.log")
	}
	if err := c.startPlane(ctx, built, opts); err != nil {
		return err
	}
	var err error
	if c.port, err = strconv.Atoi(c.plane.APIServer.Port); err != nil {
		return fmt.Errorf("read the port of the API server: %w", err)
	}
	admin, kubeconfig, err := c.User("eventquota-admin", "system:masters")
	if err != nil {
		return err
	}
	c.Config, c.kubectl = admin, kubectl{log: opts.log(), home: c.Dir, kubeconfig: kubeconfig}
	if c.client, err = kubernetes.NewForConfig(admin); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	if err := c.waitForNamespace(ctx); err != nil {
		return err
	}
	if opts.Scheduler {
		return c.startScheduler(ctx, built.Path("kube-scheduler"))
	}
	return nil
}

// waitForNamespace waits for namespace default, which the API server creates soon
// after it begins to serve.
func (c *Cluster) waitForNamespace(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
			return err == nil, nil
		})
	if err != nil {
		return fmt.Errorf("wait for namespace %s: %w", metav1.NamespaceDefault, err)
	}
	return nil
}

// stopAll stops all programs, in the reverse order of their start.
func (c *Cluster) stopAll() error {
	var errs []error
	for _, p := range slices.Backward(c.programs) {
		p.stop()
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	errs = append(errs, os.RemoveAll(c.Dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	return nil
}
