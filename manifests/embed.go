// Package manifests holds what is applied to a cluster.
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

//go:embed examples/emergency-brake.yaml
var brake []byte

// EmergencyBrake is the policy that refuses all Events but Warnings, as YAML with comments.
func EmergencyBrake() []byte { return brake }

// Files are the kustomizations: base, components, crds and overlays.
func Files() fs.FS { return files }

// Policies are the policies and quotas of every installation, each a document of YAML.
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
		var one metav1.TypeMeta // of the first document, and each policy has a file to itself
		if err := yaml.Unmarshal(content, &one); err != nil {
			return nil, fmt.Errorf("decode %s: %w", path, err)
		}
		if one.GroupVersionKind().GroupVersion() == v1alpha1.GroupVersion() {
			all = append(all, content)
		}
	}
	return all, nil
}

// CRDs are the custom resource definitions of policies.
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
