package screen

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/live"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Numbers come before names, and names are cut: whatever they say, columns stay in their places.
const (
	figureWidth = 11
	gaugeWidth  = 10
	// roomy is the height from which there is a chart, and the width from which all columns are shown.
	chartMinHeight, fullMinWidth, narrowWidth = 12, 70, 40
)

func bold(s string) string     { return ansi.Style{}.Bold().Styled(s) }
func faint(s string) string    { return ansi.Style{}.Faint().Styled(s) }
func inverted(s string) string { return ansi.Style{}.Reverse(true).Styled(s) }

// warningStyle is red, and bold where there are no colors.
func warningStyle(s string) string {
	return ansi.Style{}.Bold().ForegroundColor(ansi.BasicColor(1)).Styled(s)
}

// render is the screen: as many lines as it is high, none longer than it is wide.
func (m *model) render() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	lines := m.head()
	if m.overlay != nil {
		lines = append(lines[:1], m.overlay.lines(m.width, m.height-2)...)
	} else {
		lines = append(lines, m.table(m.height-len(lines)-1)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], faint(m.keys()))
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// head is all above the table.
func (m *model) head() []string {
	v := &m.view
	of := "all namespaces"
	if m.opts.Namespace != "" {
		of = "namespace " + printableName(m.opts.Namespace)
	}
	lines := []string{
		bold("eventquota top") + "  " + of + "  " + output.Count(int64(len(v.Replicas)), "replica", "replicas") + "  " + clock(v.At),
		m.rates(),
	}
	if m.height >= chartMinHeight {
		lines = append(lines, m.chart(), m.warning())
	} else if alarm := m.warning(); alarm != "" && m.height > 4 {
		lines[0] = alarm
	}
	return append(lines, m.tabs())
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "asking ..."
	}
	return at.Local().Format(time.TimeOnly)
}

// rates are those of all writes.
func (m *model) rates() string {
	v := &m.view
	rate := func(what string, per float64) string { return what + " " + bold(m.rate(per)) }
	all := []string{
		rate("in", v.Rates.Decided()), rate("stored", v.Rates.Admitted), rate("merged", v.Rates.Merged), rate("dropped", v.Rates.Dropped),
	}
	if m.opts.Namespace == "" {
		all = append(all, rate("own writes", v.Rates.Settled))
	}
	return strings.Join(all, "  ") + "  a second"
}

// rate is a rate in few characters.
func (m *model) rate(per float64) string {
	switch {
	case m.view.Seconds == 0:
		return "-"
	case per >= 99_950:
		return strconv.FormatFloat(per/1000, 'f', 0, 64) + "k"
	case per >= 9.95 || per == 0:
		return output.GroupDigits(int64(math.Round(per)))
	}
	return strconv.FormatFloat(per, 'f', 1, 64)
}

// chart is how many writes there were over time: a column for each look.
func (m *model) chart() string {
	points := m.view.Timeline
	points = points[max(0, len(points)-max(m.width-24, 0)):]
	most := 0.0
	for _, p := range points {
		most = max(most, p.Rates.Decided())
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, p := range points {
		switch {
		case p.Seconds == 0:
			b.WriteByte(' ')
		case most == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[int(p.Rates.Decided()/most*float64(len(bars)-1)+.5)])
		}
	}
	if most > 0 {
		b.WriteString("  most " + output.GroupDigits(int64(math.Round(most))) + " a second")
	}
	return b.String()
}

// warning is what the user should know first.
func (m *model) warning() string {
	v := &m.view
	silent := 0
	for _, r := range v.Replicas {
		if r.Silent {
			silent++
		}
	}
	switch {
	case v.Problem != "":
		return warningStyle("No answer, asking again: " + text.Sanitize(v.Problem))
	case v.Partial:
		return warningStyle("Redis did not answer in full: counts of other replicas may be missing")
	case silent > 0:
		return warningStyle(output.Count(int64(silent), "replica has", "replicas have") + " not reported for 10 s")
	}
	refusing := 0
	for i := range v.Buckets {
		if v.Buckets[i].Refuses {
			refusing++
		}
	}
	if refusing > 0 {
		return warningStyle(output.Count(int64(refusing), "bucket of a quota refuses", "buckets of quotas refuse")) + ", see " + bold("6 quotas")
	}
	return ""
}

// tabs are the names of the lists, with what selects their rows.
func (m *model) tabs() string {
	var b strings.Builder
	for t, title := range titles() {
		name := fmt.Sprintf(" %d %s ", t+1, title)
		if m.width < fullMinWidth && tab(t) != m.tab {
			name = fmt.Sprintf(" %d ", t+1)
		}
		if tab(t) == m.tab {
			name = inverted(name)
		}
		b.WriteString(name)
	}
	if crumbs := m.breadcrumbs(); crumbs != "" {
		b.WriteString("  " + crumbs)
	}
	return b.String()
}

// pageSize is how many rows are shown at once.
func (m *model) pageSize() int { return max(1, m.height-len(m.head())-2) }

// table is the list of the rows, with the chosen one among them.
func (m *model) table(height int) []string {
	rows := m.rows()
	at := m.chosenIndex(rows)
	lines := []string{bold(m.columns())}
	if len(rows) == 0 {
		return append(lines, faint("  none"))
	}
	shown := max(1, height-1)
	first := max(0, min(at-shown/2, len(rows)-shown))
	for i, r := range rows[first:min(first+shown, len(rows))] {
		line := m.cells(&r)
		if first+i == at {
			line = inverted(ansi.Truncate("> "+line, m.width, "…"))
		} else {
			line = "  " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// visibleColumns says which figures have a place, from the left.
func (m *model) visibleColumns() (all, some bool) {
	return m.width >= fullMinWidth, m.width >= narrowWidth
}

func (m *model) columns() string {
	all, some := m.visibleColumns()
	title := strings.TrimSuffix(titles()[m.tab], "s")
	var names []string
	left := "LEFT▾      "
	if m.sorted() == "dropped" {
		left = "LEFT       "
	}
	switch {
	case m.tab == quotas && all:
		return "  " + left + alignRight("TOKENS", "EMPTY IN", "REFUSED/s"+m.sortMark("dropped")) + "  QUOTA"
	case m.tab == quotas:
		return "  " + alignRight("TOKENS") + "  QUOTA"
	case all:
		names = []string{"IN/s" + m.sortMark("total"), "STORED/s" + m.sortMark("admitted"), "MERGED/s" + m.sortMark("merged"), "DROPPED/s" + m.sortMark("dropped"), "TOTAL"}
	case some:
		names = []string{"IN/s" + m.sortMark("total"), "DROPPED/s" + m.sortMark("dropped")}
	default:
		names = []string{"IN/s"}
	}
	if m.tab == policies {
		title = "policy or quota"
	}
	return "  " + alignRight(names...) + "  " + strings.ToUpper(title)
}

// sortMark is behind the title of the column that rows are sorted by.
func (m *model) sortMark(sort string) string {
	if m.sorted() == sort {
		return "▾"
	}
	return ""
}

// cells are the figures and the name of a row.
func (m *model) cells(r *row) string {
	all, some := m.visibleColumns()
	f := r.live.Rates
	var figures string
	switch {
	case r.bucket != nil && all:
		figures = gauge(r.bucket) + " " + alignRight(tokens(r.bucket), emptyIn(r.bucket), m.rate(f.Dropped))
	case r.bucket != nil:
		figures = alignRight(tokens(r.bucket))
	case all:
		figures = alignRight(m.rate(f.Decided()), m.rate(f.Admitted), m.rate(f.Merged), m.rate(f.Dropped), output.GroupDigits(r.live.Total.Matched()))
	case some:
		figures = alignRight(m.rate(f.Decided()), m.rate(f.Dropped))
	default:
		figures = alignRight(m.rate(f.Decided()))
	}
	return figures + "  " + r.name
}

// gauge is how full a bucket is.
func gauge(b *live.Bucket) string {
	if b.Tokens == nil {
		return strings.Repeat("?", gaugeWidth)
	}
	full := min(max(int(math.Ceil(b.FillRatio()*gaugeWidth)), 0), gaugeWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", gaugeWidth-full)
}

func tokens(b *live.Bucket) string {
	if b.Tokens == nil {
		return "?/" + strconv.Itoa(b.Burst)
	}
	return fmt.Sprintf("%d/%d", *b.Tokens, b.Burst)
}

// emptyIn is when a bucket is empty, or that it is.
func emptyIn(b *live.Bucket) string {
	switch {
	case b.Refuses:
		return "refuses"
	case b.EmptyIn == nil || *b.EmptyIn >= 24*60*60:
		return "-"
	}
	return (time.Duration(*b.EmptyIn) * time.Second).String()
}

// alignRight aligns columns.
func alignRight(columns ...string) string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString(strings.Repeat(" ", max(1, figureWidth-ansi.StringWidth(c))) + c)
	}
	return b.String()
}

// keys are what can be pressed.
func (m *model) keys() string {
	if m.overlay != nil {
		return m.overlay.keys
	}
	return "↑↓ move  enter open  esc back  tab list  s sort  b brake  ? help  q quit"
}
