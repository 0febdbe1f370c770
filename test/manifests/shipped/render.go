// Package shipped renders the kustomizations in manifests/ as `kubectl apply -k` does, and applies them.
package shipped

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/manifests"
)

const (
	// Base is the kustomization that all overlays share.
	Base = "base"

	overlays     = "overlays"
	baseFile     = "base/kustomization.yaml"
	versionLabel = "app.kubernetes.io/version"
)

// Overlays returns the paths of the overlays below manifests/, such as overlays/redis.
func Overlays() ([]string, error) {
	entries, err := fs.ReadDir(manifests.Files(), overlays)
	if err != nil {
		return nil, fmt.Errorf("list overlays: %w", err)
	}
	paths := make([]string, 0, len(entries))
	for _, e := range entries {
		paths = append(paths, path.Join(overlays, e.Name()))
	}
	return paths, nil
}

// rendered has results of render by its arguments, as functions that render at their first call.
//
//nolint:gochecknoglobals // the files are compiled in, so the same arguments have the same result
var rendered sync.Map

// Objects returns the objects of a kustomization, in the order in which kubectl applies them. It adds the components, as a
// user's overlay would. All paths are relative to manifests/. The objects are the caller's. It renders the same arguments once.
func Objects(kustomization string, components ...string) ([]*unstructured.Unstructured, error) {
	once, _ := rendered.LoadOrStore(fmt.Sprintf("%q %q", kustomization, components), sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
		return render(kustomization, components)
	}))
	all, _ := once.(func() ([]*unstructured.Unstructured, error)) // it has nothing else
	objects, err := all()
	if err != nil {
		return nil, err
	}
	objects = slices.Clone(objects)
	for i, o := range objects {
		objects[i] = o.DeepCopy()
	}
	return objects, nil
}

func render(kustomization string, components []string) ([]*unstructured.Unstructured, error) {
	files, err := copyFiles()
	if err != nil {
		return nil, err
	}
	if len(components) > 0 {
		if kustomization, err = addComponents(files, kustomization, components); err != nil {
			return nil, err
		}
	}
	made, err := build(files, kustomization)
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, made.Size())
	for _, r := range made.Resources() {
		content, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", r.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("decode %s: %w", r.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// addComponents writes a kustomization that adds components to another one, and returns its path.
func addComponents(files filesys.FileSystem, kustomization string, components []string) (string, error) {
	const extended = "extended"
	top := types.Kustomization{Resources: []string{path.Join("..", kustomization)}}
	for _, component := range components {
		top.Components = append(top.Components, path.Join("..", component))
	}
	content, err := yaml.Marshal(top)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", extended, err)
	}
	if err := files.WriteFile(path.Join(extended, "kustomization.yaml"), content); err != nil {
		return "", fmt.Errorf("write %s: %w", extended, err)
	}
	return extended, nil
}

// Release returns the YAML of all objects of a kustomization, with the image tag and the label of a version.
func Release(kustomization, version string) ([]byte, error) {
	if errs := validation.IsValidLabelValue(version); version == "" || len(errs) > 0 {
		return nil, fmt.Errorf("version %q: must be the tag of an image and the value of a label: %v", version, errs)
	}
	files, err := copyFiles()
	if err != nil {
		return nil, err
	}
	if err := setVersion(files, version); err != nil {
		return nil, err
	}
	made, err := build(files, kustomization)
	if err != nil {
		return nil, err
	}
	content, err := made.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", kustomization, err)
	}
	return content, nil
}

// setVersion changes the base as `kustomize edit set image` and `set label` would.
func setVersion(files filesys.FileSystem, version string) error {
	content, err := files.ReadFile(baseFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", baseFile, err)
	}
	var base types.Kustomization
	if err := yaml.UnmarshalStrict(content, &base); err != nil {
		return fmt.Errorf("decode %s: %w", baseFile, err)
	}
	for i := range base.Images {
		base.Images[i].NewTag = version
	}
	for i := range base.Labels {
		if _, ok := base.Labels[i].Pairs[versionLabel]; ok {
			base.Labels[i].Pairs[versionLabel] = version
		}
	}
	if content, err = yaml.Marshal(base); err != nil {
		return fmt.Errorf("encode %s: %w", baseFile, err)
	}
	if err := files.WriteFile(baseFile, content); err != nil {
		return fmt.Errorf("write %s: %w", baseFile, err)
	}
	return nil
}

// copyFiles returns a copy of the kustomizations that can be changed.
func copyFiles() (filesys.FileSystem, error) {
	to := filesys.MakeFsInMemory()
	err := fs.WalkDir(manifests.Files(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(manifests.Files(), path)
		if err != nil {
			return err
		}
		return to.WriteFile(path, content)
	})
	if err != nil {
		return nil, fmt.Errorf("copy the manifests: %w", err)
	}
	return to, nil
}

func build(files filesys.FileSystem, kustomization string) (resmap.ResMap, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // kubectl's
	made, err := krusty.MakeKustomizer(options).Run(files, kustomization)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", kustomization, err)
	}
	return made, nil
}
