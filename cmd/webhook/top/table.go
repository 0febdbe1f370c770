package top

import (
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// leastName is how many columns of a terminal a name has at least.
const leastName = 12

// columns are rows of cells as lines, the first cell to the left and all others
// to the right. Where width is more than 0, no line has more columns of a terminal:
// first cells are cut, down to leastName columns, and then lines.
func columns(cells [][]string, width int) []string {
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, cell := range row {
			widths[i] = max(widths[i], displaywidth.String(text.Visible(cell)))
		}
	}
	if width > 0 {
		rest := 0
		for _, w := range widths[1:] {
			rest += w + 2
		}
		widths[0] = min(widths[0], max(width-rest, leastName))
	}
	lines := make([]string, 0, len(cells))
	for _, row := range cells {
		var line strings.Builder
		for i, cell := range row {
			cell = cut(text.Visible(cell), widths[i])
			pad := strings.Repeat(" ", widths[i]-displaywidth.String(cell))
			if i == 0 {
				line.WriteString(cell + pad)
				continue
			}
			line.WriteString("  " + pad + cell)
		}
		one := line.String()
		if width > 0 {
			one = cut(one, width)
		}
		lines = append(lines, one)
	}
	return lines
}

// cut is s in at most width columns of a terminal.
func cut(s string, width int) string {
	if width < 1 {
		return ""
	}
	return displaywidth.TruncateString(s, width, "…")
}
