package simulate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

const (
	// shownTop is how many of each kind a Result has.
	shownTop = 10
	// maxTop is how many are counted at most. When there are more, the half with
	// fewer writes is forgotten, so that figures may be too low then.
	maxTop = 1 << 16
)

// TopCounts are what became of the writes of one source, or about one object.
type TopCounts struct {
	Name string `json:"name"`
	busiest.Counts
}

// top counts by name.
type top map[string]*busiest.Counts

// count counts one write of a name, which it does not keep.
func (t top) count(name []byte, v store.Verdict) {
	c := t[string(name)]
	if c == nil {
		if len(t) >= maxTop {
			for _, least := range t.sorted()[maxTop/2:] {
				delete(t, least)
			}
		}
		c = &busiest.Counts{}
		t[string(name)] = c
	}
	c.Count(v)
}

// sorted are the names, the one with the most writes first.
func (t top) sorted() []string {
	return slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		return cmp.Or(cmp.Compare(t[b].Matched(), t[a].Matched()), cmp.Compare(a, b))
	})
}

func (t top) first() []TopCounts {
	names := t.sorted()
	list := make([]TopCounts, 0, shownTop)
	for _, name := range names[:min(len(names), shownTop)] {
		list = append(list, TopCounts{name, *t[name]})
	}
	return list
}
