// Package manifests embeds the objects that an installation applies to a cluster.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

//go:embed base components crds overlays
var files embed.FS

//go:embed base/96-emergency-brake.yaml
var brake []byte

// EmergencyBrake returns the policy that drops all Events except Warnings, as it is installed: in mode Disabled, as YAML with comments.
func EmergencyBrake() []byte { return brake }

// Files returns the kustomizations: base, components, crds and overlays.
func Files() fs.FS { return files }

// Policies returns the policies and quotas of every installation, each as a YAML document.
func Policies() ([][]byte, error) {
	paths, err := fs.Glob(files, "base/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	var all [][]byte
	for _, path := range paths {
		content, err := files.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		var typeMeta metav1.TypeMeta // of the first document; each policy has its own file
		if err := yaml.Unmarshal(content, &typeMeta); err != nil {
			return nil, fmt.Errorf("decode %s: %w", path, err)
		}
		if typeMeta.GroupVersionKind().GroupVersion() == v1alpha1.GroupVersion() {
			all = append(all, content)
		}
	}
	return all, nil
}

// CRDs returns the custom resource definitions of policies and quotas.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	paths, err := fs.Glob(files, "crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list CRDs: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(paths))
	for _, path := range paths {
		content, err := files.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("decode %s: %w", path, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
