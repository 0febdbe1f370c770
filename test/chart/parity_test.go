package chart

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The annotations of Helm's hooks and of objects that Helm keeps.
const (
	hook             = "helm.sh/hook"
	hookDeletePolicy = "helm.sh/hook-delete-policy"
)

// TestOverlaysMatchValues compares each overlay with the chart. The objects must be equal, except for the differences that
// normalize removes.
func TestOverlaysMatchValues(t *testing.T) {
	overlays, err := filepath.Glob("../../manifests/overlays/*")
	if err != nil || len(overlays) == 0 {
		t.Fatalf("no overlays: %v", err)
	}
	for _, overlay := range overlays {
		says := filepath.Base(overlay)
		t.Run(says, func(t *testing.T) {
			values, ok := valueSets()[says]
			if !ok {
				t.Fatal("there is no set of values for this overlay")
			}
			want := normalize(t, renderOverlay(t, overlay))
			r := mustRender(t, values)
			installed := slices.DeleteFunc(r.Hooks, func(o *unstructured.Unstructured) bool { return o.GetAnnotations()[hook] == "test" })
			got := normalize(t, slices.Concat(r.Objects, installed))
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("overlay (-) and chart (+) have other objects:\n%s", diff)
			}
			for object := range want {
				if diff := cmp.Diff(want[object], got[object]); got[object] != nil && diff != "" {
					t.Errorf("%s: overlay (-) and chart (+) differ:\n%s", object, diff)
				}
			}
		})
	}
}

func TestCeilingValues(t *testing.T) {
	ceiling := find(t, mustRender(t, "ceiling: {burst: 1000000, tokens: 250, namespace: {burst: 500000, tokens: 125}}").Objects, quotaKind.Kind, "ceiling")
	limits, _, _ := unstructured.NestedSlice(normalizeNumbers(ceiling.Object).(map[string]any), "spec", "limits")
	want := []any{
		map[string]any{"name": "namespace", "per": []any{"Namespace"}, "burst": 5e5, "tokens": 125.0, "warningReservePercent": 0.0},
		map[string]any{"name": "cluster", "burst": 1e6, "tokens": 250.0, "warningReservePercent": 0.0},
	}
	if diff := cmp.Diff(want, limits); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func renderOverlay(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range resources.Resources() {
		object, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return objects
}

// normalize returns the objects by identity, without the intended differences. The chart has labels of Helm, does not create
// the namespace, and keeps definitions by an annotation. The overlays pass flags in a ConfigMap, and their components do
// not have the version.
func normalize(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	flags := configMaps(objects)
	all := map[string]any{}
	for _, o := range objects {
		switch {
		case o.GetKind() == "Namespace":
			continue
		case o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), "eventquota-redis"):
			continue
		}
		labels := o.GetLabels()
		for _, label := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
			delete(labels, label)
		}
		o.SetLabels(labels)
		annotations := o.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		delete(annotations, hook)
		delete(annotations, hookDeletePolicy)
		if len(annotations) == 0 {
			annotations = nil
		}
		o.SetAnnotations(annotations)
		for _, c := range containers(o) {
			if c["image"] != nil && c["imagePullPolicy"] == "IfNotPresent" {
				delete(c, "imagePullPolicy") // the default for a tag other than latest
			}
			if c["name"] == "webhook" {
				c["args"] = finalArguments(t, c["args"], flags)
				delete(c, "envFrom")
			}
		}
		if _, twice := all[identity(o)]; twice {
			t.Fatalf("%s is there twice", identity(o))
		}
		all[identity(o)] = normalizeNumbers(o.Object)
	}
	return all
}

// finalArguments returns the arguments of the webhook after substitution, sorted, without those that have no effect.
func finalArguments(t *testing.T, args any, values map[string]string) []any {
	t.Helper()
	var all []any
	for _, arg := range args.([]any) {
		expanded := regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(arg.(string), func(reference string) string {
			value, ok := values[reference[2:len(reference)-1]]
			if !ok {
				t.Fatalf("nothing says what %s is", reference)
			}
			return value
		})
		if strings.HasSuffix(expanded, "=") || strings.HasSuffix(expanded, "=false") {
			continue
		}
		all = append(all, strings.TrimSuffix(expanded, "=true"))
	}
	slices.SortFunc(all, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return all
}

// configMaps returns the merged data of all ConfigMaps.
func configMaps(objects []*unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, o := range objects {
		if o.GetKind() == "ConfigMap" {
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			maps.Copy(all, data)
		}
	}
	return all
}

func containers(o *unstructured.Unstructured) []map[string]any {
	spec, ok, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "containers")
	if !ok {
		return nil
	}
	var all []map[string]any
	for _, c := range spec.([]any) {
		all = append(all, c.(map[string]any))
	}
	return all
}

// normalizeNumbers converts all numbers to one type, so that 3 equals 3.0 as in JSON, and removes empty fields.
func normalizeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = normalizeNumbers(value)
			if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
				delete(v, key)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = normalizeNumbers(v[i])
		}
		return v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	default:
		return v
	}
}
