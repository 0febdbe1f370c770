package top

import (
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// view is what top shows: what it has read, and what was asked for.
type view struct {
	looks  looks // one at least
	failed error // of reading what would be the next
	by     busiest.By
	sort   string
	limit  int
	help   bool
}

// look is v after a look.
func (v view) look(l look) view {
	if v.failed = l.err; l.err == nil {
		v.looks = v.looks.add(l.sum)
	}
	return v
}

// byKeys are those of all values of busiest.By: r sorts by rate.
const byKeys = "nsoep"

// key is v after a key was pressed. Keys that mean nothing change nothing.
func (v view) key(k string) view {
	for i, by := range busiest.All() {
		if k == byKeys[i:i+1] {
			v.by = by
		}
	}
	for _, sort := range sortNames() {
		if k == sort[:1] {
			v.sort = sort
		}
	}
	v.help = k == "?" && !v.help
	return v
}

// page is what a terminal of a size shows: lines of at most width columns, as many
// as its height at most.
func (v view) page(width, height int) (lines []string) {
	if v.help {
		lines = topHelp()
	} else {
		lines = v.table(width, height)
	}
	lines = lines[:min(len(lines), max(height, 0))]
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	return lines
}

// tableLine is the line of a page with the names of columns.
const tableLine = 2

func (v view) table(width, height int) []string {
	const others = tableLine + 4 // columns, all, and two at the bottom
	s := v.looks.show(v.by, v.sort, min(v.limit, max(height-others, 1)))
	foot := s.foot()
	if v.failed != nil {
		foot = "not up to date: " + text.Visible(v.failed.Error())
	}
	lines := append([]string{"eventquota: " + s.head(), ""}, columns(s.cells(false), width)...)
	for len(lines) < height-2 {
		lines = append(lines, "")
	}
	return append(lines, foot, "by n s o e p   sort a m d t r   ? help   q quit")
}

func topHelp() []string {
	return []string{
		"n  by namespace       a  sort by admitted",
		"s  by source          m  sort by merged",
		"o  by object          d  sort by dropped",
		"e  by reason          t  sort by total",
		"p  by policy          r  sort by rate",
		"",
		"Counts are writes since each replica started, of all replicas that told",
		"something in the last five minutes. Rates are writes a second.",
		"",
		"any key  back         q  quit",
	}
}
