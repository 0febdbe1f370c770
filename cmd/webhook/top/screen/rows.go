package screen

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// tab is a list that can be shown.
type tab int

// The lists, as keys number them.
const (
	namespaces tab = iota
	sources
	objects
	reasons
	policies
	quotas
	tabs // the number of lists
)

// titles returns the names of the lists.
func titles() []string {
	return []string{"namespaces", "sources", "objects", "reasons", "policies", "quotas"}
}

// by returns the dimension of a list; empty for quotas.
func (t tab) by() busiest.Dimension {
	return [...]busiest.Dimension{busiest.Namespace, busiest.Source, busiest.Object, busiest.Reason, busiest.Policy, ""}[t]
}

func tabOf(by busiest.Dimension) tab {
	for t := range tabs {
		if t.by() == by {
			return t
		}
	}
	return sources
}

// sorts returns the columns that lists can be sorted by. Buckets of quotas are sorted by dropped, or else the emptiest first.
func sorts() []string { return []string{"total", "admitted", "merged", "dropped"} }

// row is a line of a list, and the list or object that it opens.
type row struct {
	key    string // unique in the list
	name   string // safe to print
	live   live.Figures
	bucket *live.Bucket
	target *position
	object *live.Object
}

// rows returns the sorted rows of the current list.
func (m *model) rows() []row {
	var all []row
	switch m.tab {
	case quotas:
		all = m.buckets()
	case objects:
		for _, o := range m.view.ObjectsOf(m.filter.Namespace, m.filter.Source) {
			all = append(all, row{key: o.Row, name: printableName(o.Title()), live: o.Figures, object: &o})
		}
	default:
		for _, r := range m.view.Rows(m.tab.by(), m.filter) {
			all = append(all, row{key: r.Name, name: printableName(r.Name), live: r.Figures, target: m.drillDown(r.Name)})
		}
	}
	if m.tab == quotas && m.sorted() != "dropped" {
		return all // the emptiest first
	}
	slices.SortStableFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(columnValue(b.live, m.sorted()), columnValue(a.live, m.sorted())))
	})
	return all
}

func (m *model) sorted() string { return sorts()[m.sort] }

func columnValue(f live.Figures, by string) float64 {
	switch by {
	case "admitted":
		return f.Rates.Admitted
	case "merged":
		return f.Rates.Merged
	case "dropped":
		return f.Rates.Dropped
	}
	return f.Rates.Decided()
}

// drillDown returns the list that a row opens: the sources of a namespace, the objects of a source, and the sources of a reason or
// policy.
func (m *model) drillDown(name string) *position {
	f, target := m.filter, sources
	switch m.tab {
	case namespaces:
		f.Namespace = name
	case sources:
		f.Source, target = name, objects
	case reasons:
		f.Reason = name
	case policies:
		f.Policy = name
	case objects, quotas, tabs:
		return nil
	}
	return new(newPosition(target, f))
}

// buckets returns the rows of the buckets that the filter does not exclude. A bucket that several namespaces share is in each of them.
func (m *model) buckets() (all []row) {
	for _, b := range m.view.BucketsOf(m.filter) {
		key := b.Title()
		name := key
		if b.Source != "" {
			name += ", most by " + b.Source
		}
		r := row{key: key, name: printableName(name), live: b.Figures, bucket: b}
		if b.Namespace != "" {
			r.target = &position{tab: sources, filter: live.Filter{Namespace: b.Namespace}}
		}
		all = append(all, r)
	}
	return all
}

// maxMarks is how many combining marks a letter may have: more would overlap the lines above and below.
const maxMarks = 2

// printableName makes a name that clients chose safe to print in a line.
func printableName(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks++; marks > maxMarks {
			return -1
		}
		return r
	}, text.Sanitize(s))
}

// breadcrumbs describes the filter.
func (m *model) breadcrumbs() string {
	var parts []string
	for _, p := range []string{m.filter.Namespace, m.filter.Source, m.filter.Reason, m.filter.Policy} {
		if p != "" {
			parts = append(parts, printableName(p))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "in " + strings.Join(parts, " > ")
}
