package policy

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of the rules of one namespace, so that they cost other namespaces little. Rules of the cluster have no such bounds.
const (
	// MaxRules is how many rules of each kind can be in force in a namespace. The oldest ones are.
	MaxRules = 16
	// MaxLimits is how many limits all quotas in force in a namespace can have together.
	MaxLimits = 16
	// MaxLimitsPerEvent is how many limits of a namespace's quotas can apply to one Event.
	MaxLimitsPerEvent = 8
	// MaxRuleSize bounds spec.match of one rule of a namespace, in bytes as SizeOf counts them. All other parts of
	// a spec are smaller.
	MaxRuleSize = 8 << 10
	// MaxRulesSize bounds the sum of these sizes, for all rules of a kind that are in force in a namespace.
	MaxRulesSize = 64 << 10
)

// nodeSize is the size that SizeOf adds for each value, besides its text.
const nodeSize = 16

// Candidate is a rule of a namespace that may come into force.
type Candidate struct {
	Created time.Time
	Name    string
	UID     types.UID
	// Size is the size of its spec.match, and Limits is the number of its limits. Both are 0 if its size makes it invalid.
	Size, Limits int
}

// CompareAge orders candidates by the time of their creation, and by name within a second. So no new
// rule takes another one out of force.
func (c *Candidate) CompareAge(than *Candidate) int {
	return cmp.Or(c.Created.Compare(than.Created), cmp.Compare(c.Name, than.Name), cmp.Compare(c.UID, than.UID))
}

// CheckSize returns an error if spec.match of a namespace's rule is larger than MaxRuleSize.
func CheckSize(kind string, size int) error {
	if size <= MaxRuleSize {
		return nil
	}
	return fmt.Errorf("spec.match: must have at most %d bytes in kind %s, with %d for each value besides its text; it has %d", MaxRuleSize, kind, nodeSize, size)
}

// Exclusions returns, for each rule of one kind in one namespace, why it is not in force, or nil if it is. Excluded rules
// may be valid. The candidates are sorted by age. If one of the first MaxRules does not fit, a younger one of them that needs less
// may. The rules after the first MaxRules make no difference.
func Exclusions(kind string, inOrder []Candidate) []error {
	why := make([]error, len(inOrder))
	limits, size := 0, 0
	for i, c := range inOrder {
		switch {
		case i >= MaxRules:
			why[i] = fmt.Errorf("of the objects of kind %s in a namespace the oldest %d are in force, and there are as many older ones", kind, MaxRules)
		case limits+c.Limits > MaxLimits:
			why[i] = fmt.Errorf("all objects of kind %s in force in a namespace may have %d limits together; older ones have %d, this one has %d",
				kind, MaxLimits, limits, c.Limits)
		case size+c.Size > MaxRulesSize:
			why[i] = fmt.Errorf("spec.match: may have %d bytes in all objects of kind %s of a namespace, with %d for each value "+
				"besides its text; older ones have %d, this one has %d", MaxRulesSize, kind, nodeSize, size, c.Size)
		default:
			limits += c.Limits
			size += c.Size
		}
	}
	return why
}

// SizeOf returns the size of a decoded JSON value: the bytes of its texts and names, and nodeSize for each value.
func SizeOf(value any) int {
	size := nodeSize
	switch v := value.(type) {
	case string:
		size += len(v)
	case []any:
		for _, one := range v {
			size += SizeOf(one)
		}
	case map[string]any:
		for name, one := range v {
			size += len(name) + SizeOf(one)
		}
	}
	return size
}
