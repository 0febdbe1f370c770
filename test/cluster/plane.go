package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

const (
	// startTimeout bounds the start of one program. It takes 3 s alone, and many times that on a machine that is also
	// compiling.
	startTimeout = 60 * time.Second

	// stopTimeout is how long a program may take to end before it is killed.
	stopTimeout = 20 * time.Second
)

// startPlane starts etcd and kube-apiserver. envtest picks free ports first and binds them later, so another program
// may take a port in between. Then startPlane tries again.
func (c *Cluster) startPlane(ctx context.Context, built binaries.Set, opts Options) error {
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		logs, err := c.tryPlane(built, opts, attempt)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%w\n%s", err, lastLines(logs, 2048))
		if attempt == 3 || !bytes.Contains(logs, []byte("address already in use")) {
			return err
		}
		fmt.Fprintf(opts.log(), "control plane %s: a port was taken meanwhile, trying again\n", c.Version)
	}
}

// tryPlane makes one attempt in a separate directory. If it fails, it has stopped both programs and returns the log
// of the failing one.
func (c *Cluster) tryPlane(built binaries.Set, opts Options, attempt int) (logs []byte, err error) {
	dir := filepath.Join(c.Dir, fmt.Sprintf("plane-%d", attempt))
	etcdDir, apiServerDir := filepath.Join(dir, "etcd"), filepath.Join(dir, "kube-apiserver")
	if err := errors.Join(os.MkdirAll(etcdDir, 0o700), os.MkdirAll(apiServerDir, 0o700)); err != nil {
		return nil, err
	}
	etcdLog, err := os.Create(filepath.Join(dir, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer etcdLog.Close() // the process has its own descriptor
	// A Pool empties it.
	apiServerLog, err := os.OpenFile(filepath.Join(dir, "kube-apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer apiServerLog.Close()

	// All paths and directories are set, so that no environment variable of envtest, such as USE_EXISTING_CLUSTER,
	// can redirect the tests.
	plane := &envtest.ControlPlane{
		Etcd: &envtest.Etcd{
			Path: built.Path("etcd"), DataDir: etcdDir, Out: etcdLog, Err: etcdLog,
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
		},
		APIServer: &envtest.APIServer{
			Path: built.Path("kube-apiserver"), CertDir: apiServerDir, Out: apiServerLog, Err: apiServerLog,
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
		},
	}
	etcdFlags := plane.Etcd.Configure().Set("log-level", "warn")
	for name, value := range opts.EtcdFlags {
		etcdFlags.Set(name, value)
	}
	if err := configureAPIServer(plane.APIServer.Configure(), c.Version, opts, dir, c.AuditLog); err != nil {
		return nil, err
	}
	if err := plane.Start(); err != nil {
		err = errors.Join(err, plane.Stop())
		if logs = readLog(apiServerLog.Name()); len(logs) == 0 { // it did not start
			logs = readLog(etcdLog.Name())
		}
		return logs, err
	}
	c.plane, c.log = plane, apiServerLog.Name()
	return nil, nil
}

// readLog returns the readable content of a log, for an error with another cause.
func readLog(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return content
}

// lastLines returns the whole lines in the last limit bytes of content.
func lastLines(content []byte, limit int) []byte {
	if len(content) <= limit {
		return content
	}
	content = content[len(content)-limit:]
	return content[bytes.IndexByte(content, '\n')+1:]
}
