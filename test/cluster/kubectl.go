package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/cluster/binaries"
	"github.com/eventquota/eventquota/test/userenv"
)

const kubectlProgram = "kubectl"

// kubectl builds and runs kubectl for one cluster.
type kubectl struct {
	log        io.Writer
	home       string // contains kubectl's cache of the API server's discovery
	kubeconfig string
}

// Kubectl runs kubectl as the administrator, with stdin as its standard input. kubectl has the API server's version,
// includes kustomize, and is configured for this cluster only. Relative paths in args start at the working directory.
// The error includes stderr. If ctx ends first, Kubectl returns an error.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	path, err := c.KubectlPath(ctx)
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + c.kubectl.kubeconfig}, args...)...)
	cmd.Env = userenv.Kubectl(c.kubectl.home, "")
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), errs.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.String(), errs.String(), nil
}

// KubectlPath returns the path of the program. The first call builds it, because most clusters do not need it.
func (c *Cluster) KubectlPath(ctx context.Context) (string, error) {
	built, err := binaries.Ensure(ctx, c.kubectl.log, kubectlProgram)
	return built.Path(kubectlProgram), err
}
