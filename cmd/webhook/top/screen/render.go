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

// Numbers come before names, and names are cut, so that no name can move a column.
const (
	figureWidth = 11
	gaugeWidth  = 10
	// chartMinHeight is the least height with a chart. fullMinWidth is the least width with all columns, and narrowWidth that with
	// two columns of rates.
	chartMinHeight, fullMinWidth, narrowWidth = 12, 70, 40
)

func bold(s string) string     { return ansi.Style{}.Bold().Styled(s) }
func faint(s string) string    { return ansi.Style{}.Faint().Styled(s) }
func inverted(s string) string { return ansi.Style{}.Reverse(true).Styled(s) }

// warningStyle is bold and red; on a terminal without colors it is still bold.
func warningStyle(s string) string {
	return ansi.Style{}.Bold().ForegroundColor(ansi.BasicColor(1)).Styled(s)
}

// render returns the screen. It has exactly m.height lines, none wider than m.width.
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

// head returns the lines above the table.
func (m *model) head() []string {
	v := &m.view
	scope := "all namespaces"
	if m.opts.Namespace != "" {
		scope = "namespace " + printableName(m.opts.Namespace)
	}
	lines := []string{
		bold("eventquota top") + "  " + scope + "  " + output.Count(int64(len(v.Replicas)), "replica", "replicas") + "  " + clock(v.At),
		m.rates(),
	}
	if m.height >= chartMinHeight {
		lines = append(lines, m.chart(), m.warning())
	} else if warning := m.warning(); warning != "" && m.height > 4 {
		lines[0] = warning
	}
	return append(lines, m.tabs())
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "connecting ..."
	}
	return at.Local().Format(time.TimeOnly)
}

// rates returns the line with the rates of all writes.
func (m *model) rates() string {
	v := &m.view
	rate := func(name string, perSecond float64) string { return name + " " + bold(m.rate(perSecond)) }
	all := []string{
		rate("in", v.Rates.Decided()), rate("stored", v.Rates.Admitted), rate("merged", v.Rates.Merged), rate("dropped", v.Rates.Dropped),
	}
	if m.opts.Namespace == "" {
		all = append(all, rate("own writes", v.Rates.Settled))
	}
	return strings.Join(all, "  ") + "  per second"
}

// rate formats a rate in few characters.
func (m *model) rate(perSecond float64) string {
	switch {
	case m.view.Seconds == 0:
		return "-"
	case perSecond >= 99_950:
		return strconv.FormatFloat(perSecond/1000, 'f', 0, 64) + "k"
	case perSecond >= 9.95 || perSecond == 0:
		return output.GroupDigits(int64(math.Round(perSecond)))
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}

// chart returns a chart of the rate of writes over time, with a column for each poll.
func (m *model) chart() string {
	points := m.view.Timeline
	points = points[max(0, len(points)-max(m.width-24, 0)):]
	peak := 0.0
	for _, p := range points {
		peak = max(peak, p.Rates.Decided())
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, p := range points {
		switch {
		case p.Seconds == 0:
			b.WriteByte(' ')
		case peak == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[int(p.Rates.Decided()/peak*float64(len(bars)-1)+.5)])
		}
	}
	if peak > 0 {
		b.WriteString("  peak " + output.GroupDigits(int64(math.Round(peak))) + " per second")
	}
	return b.String()
}

// warning returns the most important problem, or what quotas refuse; empty for none.
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
		return warningStyle("No answer, retrying: " + text.Sanitize(v.Problem))
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

// tabs returns the names of the lists, and the filter of the current one.
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

// pageSize returns how many rows fit on the screen.
func (m *model) pageSize() int { return max(1, m.height-len(m.head())-2) }

// table returns the header and the rows around the selected one.
func (m *model) table(height int) []string {
	rows := m.rows()
	chosen := m.chosenIndex(rows)
	lines := []string{bold(m.columns())}
	if len(rows) == 0 {
		return append(lines, faint("  none"))
	}
	visible := max(1, height-1)
	first := max(0, min(chosen-visible/2, len(rows)-visible))
	for i, r := range rows[first:min(first+visible, len(rows))] {
		line := m.cells(&r)
		if first+i == chosen {
			line = inverted(ansi.Truncate("> "+line, m.width, "…"))
		} else {
			line = "  " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// visibleColumns reports whether the width fits all columns, or at least some.
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

// sortMark marks the title of the column that rows are sorted by.
func (m *model) sortMark(sort string) string {
	if m.sorted() == sort {
		return "▾"
	}
	return ""
}

// cells returns the figures and the name of a row.
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

// gauge draws how full a bucket is.
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

// emptyIn returns the time until a bucket is empty, or that it refuses Events.
func emptyIn(b *live.Bucket) string {
	switch {
	case b.Refuses:
		return "refuses"
	case b.EmptyIn == nil || *b.EmptyIn >= 24*60*60:
		return "-"
	}
	return (time.Duration(*b.EmptyIn) * time.Second).String()
}

// alignRight aligns columns to the right.
func alignRight(columns ...string) string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString(strings.Repeat(" ", max(1, figureWidth-ansi.StringWidth(c))) + c)
	}
	return b.String()
}

// keys returns the line with the keys.
func (m *model) keys() string {
	if m.overlay != nil {
		return m.overlay.keys
	}
	return "↑↓ move  enter open  esc back  tab list  s sort  b brake  ? help  q quit"
}
