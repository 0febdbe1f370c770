package lint

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
)

// warningsOf says which rules have no effect, ordered by their kinds and names.
func warningsOf(read *policyfile.Rules) (warnings []string) {
	rules := slices.Collect(read.Cluster.All())
	var selectable []labels.Set // where the files have namespaces
	for _, n := range read.Namespaces {
		rules = slices.AppendSeq(rules, n.All())
		if n.Labels != nil {
			selectable = append(selectable, n.Labels)
		}
	}
	slices.SortFunc(rules, func(a, b *policy.Rule) int { return cmp.Compare(a.Name, b.Name) })
	set, shadowed := read.Set(), map[string]map[string][]string{}
	for _, r := range rules {
		namespace := r.Identity.Namespace
		if shadowed[namespace] == nil {
			shadowed[namespace] = set.Shadowed(namespace)
		}
		selects := func(ls labels.Set) bool { return r.Match.Namespaces.Matches(ls) }
		switch {
		case r.Mode == policy.Disabled:
			warnings = append(warnings, r.Name+": its mode is Disabled")
		case r.Match.Namespaces != nil && len(selectable) > 0 && !slices.ContainsFunc(selectable, selects):
			warnings = append(warnings, r.Name+": its namespaceSelector selects no namespace of the files")
		default:
			for _, why := range shadowed[namespace][r.Name] {
				warnings = append(warnings, r.Name+": "+why)
			}
		}
	}
	return warnings
}
