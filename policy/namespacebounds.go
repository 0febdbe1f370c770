package policy

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What the rules of one namespace may cost everybody else. Rules of the cluster have no such bounds.
const (
	// MaxRules is how many rules of each kind may be in force in a namespace: the oldest.
	MaxRules = 16
	// MaxLimits is how many limits the quotas that are in force in a namespace may have in all.
	MaxLimits = 16
	// MaxLimitsPerEvent is how many limits of a namespace's quotas apply to one Event.
	MaxLimitsPerEvent = 8
	// MaxRuleSize is how large spec.match of one rule of a namespace may be, in bytes as SizeOf counts them. No other part of
	// a spec can be as large.
	MaxRuleSize = 8 << 10
	// MaxRulesSize is how large those of all rules of a kind that are in force in a namespace may be.
	MaxRulesSize = 64 << 10
)

// nodeSize is what SizeOf counts for each value, beside its text.
const nodeSize = 16

// Candidate is a rule of a namespace that is to be in force.
type Candidate struct {
	Created time.Time
	Name    string
	UID     types.UID
	// Size is that of its spec.match, and Limits how many limits it has. Both are 0 if its size makes it invalid.
	Size, Limits int
}

// CompareAge orders candidates: the rule that was created first goes first, and of those of one second the lower name. So no
// rule that is new takes another one out of force.
func (c *Candidate) CompareAge(than *Candidate) int {
	return cmp.Or(c.Created.Compare(than.Created), cmp.Compare(c.Name, than.Name), cmp.Compare(c.UID, than.UID))
}

// CheckSize says why a rule of a namespace whose spec.match has that size is not valid; nil if it may have it.
func CheckSize(kind string, size int) error {
	if size <= MaxRuleSize {
		return nil
	}
	return fmt.Errorf("spec.match: must have at most %d bytes in kind %s, with %d for each value beside its text; it has %d", MaxRuleSize, kind, nodeSize, size)
}

// Exclusions says why rules of one kind in one namespace are not in force, though they may be valid; nil for those that are.
// They are the oldest ones, in order. Of the first MaxRules, one for which there is no place leaves it to a younger one that
// needs less; what is in force does not depend on those after them.
func Exclusions(kind string, inOrder []Candidate) []error {
	why := make([]error, len(inOrder))
	limits, size := 0, 0
	for i, c := range inOrder {
		switch {
		case i >= MaxRules:
			why[i] = fmt.Errorf("of the objects of kind %s in a namespace the oldest %d are in force, and there are as many older ones", kind, MaxRules)
		case limits+c.Limits > MaxLimits:
			why[i] = fmt.Errorf("the objects of kind %s that are in force in a namespace may have %d limits in all: older ones have %d, this one has %d",
				kind, MaxLimits, limits, c.Limits)
		case size+c.Size > MaxRulesSize:
			why[i] = fmt.Errorf("spec.match: those of the objects of kind %s that are in force in a namespace may have %d bytes in all, with %d for each value "+
				"beside its text: older ones have %d, this one has %d", kind, MaxRulesSize, nodeSize, size, c.Size)
		default:
			limits += c.Limits
			size += c.Size
		}
	}
	return why
}

// SizeOf is how much a decoded JSON value has in it: the bytes of its texts and names, and nodeSize for each value.
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
