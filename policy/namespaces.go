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

// Bounds of the labels and annotations of a namespace that are kept, in the order of their names.
const (
	// MaxLabelsBytes bounds the labels, with their names. Labels by which the cluster's rules select namespaces are kept
	// in addition.
	MaxLabelsBytes = 4 << 10
	// MaxAnnotationsBytes bounds the annotations, with their names.
	MaxAnnotationsBytes = 4 << 10
	// MaxAnnotationBytes bounds one annotation, with its name.
	MaxAnnotationBytes = 512
)

// ErrNotSynced is the reason for unknown matches while a Set does not know a namespace yet, or not the labels by which a new rule
// selects.
var ErrNotSynced = errors.New("not known yet")

// errUnknownLabels tells why it is unknown whether a rule selects a namespace.
var errUnknownLabels = fmt.Errorf("%w: labels of the namespace are %w", expression.ErrUnknown, ErrNotSynced)

// SetMetadata copies the namespace's labels and annotations that are within the bounds, and the labels whose names
// are in selected, see Rules.SelectedLabels.
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

// SelectedLabels returns the names of the labels by which rules select namespaces.
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

// matches tells whether a selector selects the namespace name.
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
	if has == nil { // every namespace has its name as a label
		has = labels.Set{corev1.LabelMetadataName: name}
	}
	if !has.Has(r.Key()) && (n.Labels == nil || n.PartialLabels && !n.knownLabels[r.Key()]) {
		return unknown
	}
	return truthOf(r.Matches(has))
}
