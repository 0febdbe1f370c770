package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

const kubectlProgram = "kubectl"

// kubectl is how the program of that name is built, and whom it works for.
type kubectl struct {
	log        io.Writer
	home       string // where it keeps what it has learned of the API server
	kubeconfig string
}

// Kubectl runs kubectl as the administrator, with stdin as its standard input. It is of
// the API server's version, kustomize is part of it, and it knows of no cluster but this
// one. A relative path in args starts at the working directory. The error carries what
// kubectl wrote to standard error, as stderr does; a command that ends with ctx has
// failed.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	path, err := c.KubectlPath(ctx)
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + c.kubectl.kubeconfig}, args...)...)
	// The user's own settings and caches are not to matter, nor to change.
	cmd.Env = append(os.Environ(), "HOME="+c.kubectl.home, "KUBECONFIG=", "KUBERC=off", "KUBECACHEDIR=", "KUBECTL_EXTERNAL_DIFF=")
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), errs.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.String(), errs.String(), nil
}

// KubectlPath is where the program is. It is built first if that is not done yet, as most
// clusters need none.
func (c *Cluster) KubectlPath(ctx context.Context) (string, error) {
	built, err := binaries.Ensure(ctx, c.kubectl.log, kubectlProgram)
	return built.Path(kubectlProgram), err
}
