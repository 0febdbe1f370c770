package policyfile

import (
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// Unrelated is what files and directories have beside policies and quotas.
type Unrelated struct {
	// Objects is how many of other kinds there are, and Files how many files have them.
	Objects, Files int
	// Unreadable are documents that cannot be read, in files that have nothing of ours.
	Unreadable []*document.FieldError
	// KustomizationOnly are directories that have a kustomization and nothing else that is read.
	KustomizationOnly []string
	// Patches are files that a kustomization applies to others.
	Patches []string
}

// Notes say what was passed over, a sentence each.
func (p *Unrelated) Notes() (all []string) {
	if p.Objects > 0 {
		all = append(all, Count(p.Objects, "object")+" of other kinds passed over, in "+Count(p.Files, "file"))
	}
	for _, path := range p.KustomizationOnly {
		all = append(all, path+" has nothing but a kustomization; what that makes is read from: kubectl kustomize "+path)
	}
	for _, path := range p.Patches {
		all = append(all, path+" passed over: its kustomization applies it to others as a patch")
	}
	for _, m := range p.Unreadable {
		all = append(all, m.Location()+" passed over, as nothing there names our API group: "+m.Reason)
	}
	return all
}

// kustomization is what matters here of the file of kustomize in a directory.
type kustomization struct {
	Namespace string   `json:"namespace"`
	Resources []string `json:"resources"`
	Patches   []struct {
		Path string `json:"path"`
	} `json:"patches"`
	PatchesStrategicMerge []string `json:"patchesStrategicMerge"`
	PatchesJSON6902       []struct {
		Path string `json:"path"`
	} `json:"patchesJson6902"`
}

// isKustomization reports whether kustomize reads a file by its name.
func isKustomization(path string) bool { return slices.Contains(kustomizations(), filepath.Base(path)) }

func kustomizations() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// kustomizationOf is that of the directory of a file; it is empty if there is none that can be read.
func kustomizationOf(path string) (k kustomization) {
	for _, name := range kustomizations() {
		at := filepath.Join(filepath.Dir(path), name)
		content, err := document.Load(at, nil)
		if err != nil {
			continue
		}
		for _, doc := range document.Parse(at, content) {
			object, _ := doc.Value.(map[string]any)
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &k) == nil {
				return k
			}
		}
	}
	return kustomization{}
}

// patches reports whether a file is applied to other objects.
func (k *kustomization) patches(path string) bool {
	names := slices.Clone(k.PatchesStrategicMerge)
	for _, patch := range slices.Concat(k.Patches, k.PatchesJSON6902) {
		names = append(names, patch.Path)
	}
	return containsPath(path, names)
}

// namespaceOf is the namespace that kustomize gives what is in a file, or empty.
func (k *kustomization) namespaceOf(path string) string {
	if containsPath(path, k.Resources) {
		return k.Namespace
	}
	return ""
}

func containsPath(path string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.TrimPrefix(filepath.Clean(name), "./") == filepath.Base(path)
	})
}
