package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy/expression"
)

// How much is known of a namespace at most. Labels and annotations go by their names.
const (
	// MaxLabelsBytes is how many bytes of labels are kept, their names included, beside those that the cluster's rules select
	// namespaces by.
	MaxLabelsBytes = 4 << 10
	// MaxAnnotationsBytes is how many bytes of annotations are kept.
	MaxAnnotationsBytes = 4 << 10
	// MaxAnnotationBytes is the longest annotation that is kept, its name included.
	MaxAnnotationBytes = 512
)

// ErrNotSynced is why rules are unknown for the Events of a namespace that a Set does not know yet, or of which it does not
// know yet the labels that a new rule selects by.
var ErrNotSynced = errors.New("not known yet")

// errUnknownLabels is why it is unknown whether a rule selects a namespace.
var errUnknownLabels = fmt.Errorf("%w: labels of the namespace are %w", expression.ErrUnknown, ErrNotSynced)

// SetMetadata keeps of the labels and annotations that the namespace has what is within bounds, and the labels of which the names
// are in selected: see Rules.SelectedLabels. It shares neither map.
func (n *Namespace) SetMetadata(all, annotations map[string]string, selected map[string]bool) {
	n.Labels, n.PartialLabels, n.knownLabels = labels.Set{}, false, nil
	size := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != corev1.LabelMetadataName && !selected[name] {
			if size += len(name) + len(all[name]); size > MaxLabelsBytes {
				n.PartialLabels, n.knownLabels = true, selected
				continue
			}
		}
		n.Labels[name] = all[name]
	}
	n.Annotations, size = map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if long := len(name) + len(annotations[name]); long <= MaxAnnotationBytes && size+long <= MaxAnnotationsBytes {
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

// matches says whether a selector selects the namespace of a name.
func (n *Namespace) matches(selector labels.Selector, name string) truth {
	requirements, _ := selector.Requirements()
	is := yes
	for i := range requirements {
		is = min(is, n.meetsRequirement(&requirements[i], name))
	}
	return is
}

func (n *Namespace) meetsRequirement(r *labels.Requirement, name string) truth {
	has := n.Labels
	if has == nil { // each has its name as a label
		has = labels.Set{corev1.LabelMetadataName: name}
	}
	if !has.Has(r.Key()) && (n.Labels == nil || n.PartialLabels && !n.knownLabels[r.Key()]) {
		return unknown
	}
	return truthOf(r.Matches(has))
}
