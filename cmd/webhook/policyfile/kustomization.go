package policyfile

import (
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Unrelated describes the content of files and directories that is not policies or quotas.
type Unrelated struct {
	// Objects counts objects of other kinds, and Files the files that have them.
	Objects, Files int
	// Unreadable has an error for each document that cannot be read, in files that do not mention the API group.
	Unreadable []*document.FieldError
	// KustomizationOnly are directories whose only readable file is a kustomization.
	KustomizationOnly []string
	// Patches are files that a kustomization applies to other objects.
	Patches []string
}

// Notes returns a sentence for each thing that was skipped.
func (u *Unrelated) Notes() (all []string) {
	if u.Objects > 0 {
		all = append(all, "skipped "+Count(u.Objects, "object")+" of other kinds in "+Count(u.Files, "file"))
	}
	for _, path := range u.KustomizationOnly {
		all = append(all, path+" has only a kustomization; pipe its output instead: kubectl kustomize "+path)
	}
	for _, path := range u.Patches {
		all = append(all, "skipped "+path+": its kustomization applies it as a patch")
	}
	for _, m := range u.Unreadable {
		all = append(all, "skipped "+m.Location()+", which does not mention the API group "+v1alpha1.GroupName+": "+m.Reason)
	}
	return all
}

// kustomization has the fields of a kustomization file that matter here.
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

// isKustomization reports whether a file has one of the names of kustomization files.
func isKustomization(path string) bool { return slices.Contains(kustomizations(), filepath.Base(path)) }

func kustomizations() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// kustomizationOf returns the kustomization in the directory of a file. It is empty if there is none or it cannot be
// read.
func kustomizationOf(path string) (k kustomization) {
	for _, name := range kustomizations() {
		file := filepath.Join(filepath.Dir(path), name)
		content, err := document.Load(file, nil)
		if err != nil {
			continue
		}
		for _, doc := range document.Parse(file, content) {
			object, _ := doc.Value.(map[string]any)
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &k) == nil {
				return k
			}
		}
	}
	return kustomization{}
}

// patches reports whether k applies a file to other objects as a patch.
func (k *kustomization) patches(path string) bool {
	names := slices.Clone(k.PatchesStrategicMerge)
	for _, patch := range slices.Concat(k.Patches, k.PatchesJSON6902) {
		names = append(names, patch.Path)
	}
	return containsPath(path, names)
}

// namespaceOf returns the namespace that kustomize sets on the objects of a file, or "".
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
