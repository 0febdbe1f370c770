package lint

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
)

// warningsOf says which rules have no effect, ordered by their kinds and names.
func warningsOf(read *policyfile.Rules) []string {
	cluster, namespaces := read.All()
	set := read.Set()
	var selectable []labels.Set
	for _, n := range namespaces {
		if n.Labels != nil {
			selectable = append(selectable, n.Labels)
		}
	}
	all := slices.Collect(cluster.All())
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		all = slices.AppendSeq(all, namespaces[name].All())
	}
	slices.SortStableFunc(all, func(a, b *policy.Rule) int { return cmp.Compare(a.Name, b.Name) })
	var warnings []string
	for _, r := range all {
		warnings = append(warnings, warningsFor(r, selectable, set)...)
	}
	return warnings
}

// warningsFor says why a rule has no effect. Namespaces are known only where the files have some.
func warningsFor(r *policy.Rule, selectable []labels.Set, set *policy.Set) (warnings []string) {
	selected := func(ls labels.Set) bool { return r.Match.Namespaces.Matches(ls) }
	switch {
	case r.Mode == policy.Disabled:
		return []string{r.Name + ": its mode is Disabled"}
	case r.Match.Namespaces != nil && len(selectable) > 0 && !slices.ContainsFunc(selectable, selected):
		return []string{r.Name + ": its namespaceSelector selects no namespace of the files"}
	}
	for _, why := range set.Shadowed(r.Identity.Namespace)[r.Name] {
		warnings = append(warnings, r.Name+": "+why)
	}
	return warnings
}
