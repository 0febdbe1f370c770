package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// VersionVariable is the environment variable that selects the Kubernetes version: a minor version such as 1.37, or a
// full version such as 1.37.2. If it is empty, the version in the control plane module's go.mod applies.
const VersionVariable = "EVENTQUOTA_KUBERNETES"

// release is a Kubernetes version that can be built.
type release struct {
	version string // without the v, such as 1.37.2
	modFile string // in the module's directory
}

// minor returns the version without its patch number, such as 1.37.
func (r release) minor() string { return Minor(r.version) }

// Minor returns a version without its patch number, such as 1.37 of 1.37.2.
func Minor(version string) string { return version[:strings.LastIndexByte(version, '.')] }

// releases lists the versions that the control plane module in moduleDir can build, the default first. The mod files
// are the only place with version numbers: a new mod file adds a version.
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

// Versions returns the Kubernetes versions, such as 1.37.2, that the checkout in root can build, the newest first.
func Versions(root string) ([]string, error) {
	from, err := releases(filepath.Join(root, "test", "controlplane"))
	if err != nil {
		return nil, err
	}
	// The default is the newest, and the file names sort by version.
	slices.Reverse(from[1:])
	versions := make([]string, len(from))
	for i, r := range from {
		versions[i] = r.version
	}
	return versions, nil
}

// findRelease returns the release with the given minor or full version, or the default if wanted is empty. The error
// names the variable and its allowed values.
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
