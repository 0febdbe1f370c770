package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventquota/eventquota/test/cluster"
)

// The packages of the helm programs, which are tools of this module.
const (
	helm3 = "helm.sh/helm/v3/cmd/helm"
	helm4 = "helm.sh/helm/v4/cmd/helm"
)

// helm runs a helm program on one release in one namespace.
type helm struct {
	t                              *testing.T
	program, kubeconfig, namespace string
	home                           string
}

// helmPaths return the path of the program of a package. Their first calls build it.
var helmPaths = map[string]func() (string, error){
	helm3: sync.OnceValues(func() (string, error) { return toolPath(helm3) }),
	helm4: sync.OnceValues(func() (string, error) { return toolPath(helm4) }),
}

// toolPath returns the path of a tool of this module, which go tool builds if necessary.
func toolPath(program string) (string, error) {
	built, err := exec.Command("go", "tool", "-n", program).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	return strings.TrimSpace(string(built)), nil
}

// newHelm returns the program of a package.
func newHelm(t *testing.T, c *cluster.Cluster, program, in string) *helm {
	t.Helper()
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	path, err := helmPaths[program]()
	if err != nil {
		t.Fatal(err)
	}
	return &helm{t: t, program: path, kubeconfig: kubeconfig, namespace: in, home: t.TempDir()}
}

// as returns the same release for another helm program.
func (h *helm) as(c *cluster.Cluster, program string) *helm {
	return newHelm(h.t, c, program, h.namespace)
}

// run runs a command on the release, and returns its error with what it printed.
func (h *helm) run(command string, args ...string) error {
	h.t.Helper()
	args = append([]string{command, name, "--kubeconfig", h.kubeconfig, "--namespace", h.namespace, "--timeout", "1m"}, args...)
	helm := exec.CommandContext(h.t.Context(), h.program, args...)
	helm.Env = []string{"GOGC=" + os.Getenv("GOGC"), "GOMAXPROCS=" + os.Getenv("GOMAXPROCS")} // and nothing of the user's own settings
	for _, variable := range []string{"HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		helm.Env = append(helm.Env, variable+"="+h.home)
	}
	output, err := helm.CombinedOutput()
	if err != nil {
		return fmt.Errorf("helm %s: %w: %s", command, err, output)
	}
	return nil
}

func (h *helm) mustRun(command string, args ...string) {
	h.t.Helper()
	if err := h.run(command, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *helm) install(chart, values string) {
	h.t.Helper()
	if err := h.tryInstall(chart, values); err != nil {
		h.t.Fatal(err)
	}
}

// tryInstall does not wait for Deployments, because no controller makes them ready here.
func (h *helm) tryInstall(chart, values string) error {
	h.t.Helper()
	return h.run("install", chart, "--create-namespace", "--values", h.values(values))
}

func (h *helm) upgrade(chart, values string) {
	h.t.Helper()
	if err := h.tryUpgrade(chart, values); err != nil {
		h.t.Fatal(err)
	}
}

// tryUpgrade lets the API server alone check the objects: the installation has checked them against its OpenAPI documents, which takes
// helm a third of its time.
func (h *helm) tryUpgrade(chart, values string, flags ...string) error {
	h.t.Helper()
	return h.run("upgrade", append([]string{chart, "--reset-values", "--disable-openapi-validation", "--values", h.values(values)}, flags...)...)
}

// values writes values into a file.
func (h *helm) values(text string) string {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return file
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
