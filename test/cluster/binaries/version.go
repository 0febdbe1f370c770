package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// VersionVariable is the environment variable that chooses the Kubernetes version: a
// minor version such as 1.37, or the full number such as 1.37.2. Unset or empty takes
// the version that the control plane module's go.mod requires.
const VersionVariable = "EVENTQUOTA_KUBERNETES"

// release is one Kubernetes version that can be built.
type release struct {
	version string // without the v, such as 1.37.2
	modFile string // in the module's directory
}

// minor is the version without its patch number, such as 1.37.
func (r release) minor() string {
	return r.version[:strings.LastIndexByte(r.version, '.')]
}

// releases lists what the control plane module in moduleDir can build, its default
// first. The mod files are the only place that holds a version number: adding a
// version is adding a file.
func releases(moduleDir string) ([]release, error) {
	alternatives, err := filepath.Glob(filepath.Join(moduleDir, "kubernetes-*.mod"))
	if err != nil {
		return nil, fmt.Errorf("list the mod files: %w", err)
	}
	var found []release
	for _, path := range append([]string{filepath.Join(moduleDir, "go.mod")}, alternatives...) {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a Kubernetes version: %w", err)
		}
		required := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\d+\.\d+\.\d+)`).FindSubmatch(content)
		if required == nil {
			return nil, fmt.Errorf("%s requires no released version of k8s.io/kubernetes", path)
		}
		found = append(found, release{version: string(required[1]), modFile: filepath.Base(path)})
	}
	return found, nil
}

// findRelease returns the release that wanted names by its minor or its full version. The
// empty string is the default. The error names the variable and what it may hold.
func findRelease(wanted string, from []release) (release, error) {
	if wanted == "" {
		return from[0], nil
	}
	var allowed []string
	for _, r := range from {
		if wanted == r.minor() || wanted == r.version {
			return r, nil
		}
		allowed = append(allowed, r.minor()+" ("+r.version+")")
	}
	return release{}, fmt.Errorf("%s=%q is not a Kubernetes version this repository can build: use one of %s",
		VersionVariable, wanted, strings.Join(allowed, ", "))
}
