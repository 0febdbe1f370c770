package policy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// How much is known of a namespace at most. Labels and annotations go by their names.
const (
	// MaxLabels is how many bytes of labels are kept, their names included, beside those that the cluster's rules select
	// namespaces by.
	MaxLabels = 4 << 10
	// MaxAnnotations is how many bytes of annotations are kept.
	MaxAnnotations = 4 << 10
	// MaxAnnotation is the longest annotation that is kept, its name included.
	MaxAnnotation = 512
)

// Keep keeps of the labels and annotations that the namespace has what is within bounds, and the labels of which the names
// are in selected: see Rules.SelectedLabels. It shares neither map.
func (n *Namespace) Keep(all, annotations map[string]string, selected map[string]bool) {
	n.Labels, n.PartialLabels = labels.Set{}, false
	size := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != corev1.LabelMetadataName && !selected[name] {
			if size += len(name) + len(all[name]); size > MaxLabels {
				n.PartialLabels = true
				continue
			}
		}
		n.Labels[name] = all[name]
	}
	n.Annotations, size = map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if long := len(name) + len(annotations[name]); long <= MaxAnnotation && size+long <= MaxAnnotations {
			n.Annotations[name] = annotations[name]
			size += long
		}
	}
	n.PartialAnnotations = len(n.Annotations) < len(annotations)
}

// SelectedLabels are the names of the labels by which rules select namespaces.
func (r Rules) SelectedLabels() map[string]bool {
	names := map[string]bool{}
	for one := range r.All() {
		if one.Match.Namespaces == nil {
			continue
		}
		requirements, _ := one.Match.Namespaces.Requirements()
		for _, requirement := range requirements {
			names[requirement.Key()] = true
		}
	}
	return names
}
