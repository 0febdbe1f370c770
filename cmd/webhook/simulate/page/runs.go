package page

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

// runs have what became of the writes under each set of policies, side by side.
func runs(r *report.Report) *html.Node {
	most := int64(1)
	for _, run := range r.Runs {
		for _, slot := range run.Timeline.Slots {
			most = max(most, slot.Matched()+slot.Other)
		}
	}
	class := "runs"
	if len(r.Runs) > 1 {
		class = "runs compared"
	}
	all := with(el("div"), "class", class)
	for i := range r.Runs {
		heading := el("h2", textf("Decisions"))
		if len(r.Runs) > 1 {
			heading = el("h2", textf("Under "), name(r.Runs[i].Name()))
		}
		id, counts := "run-"+strconv.Itoa(i+1), sumOf(&r.Runs[i].Timeline)
		all.AppendChild(with(el("article", with(heading, "id", id), tiles(&r.Runs[i], counts), figure(&r.Runs[i].Timeline, counts, most), tables(&r.Runs[i])),
			"aria-labelledby", id))
	}
	return all
}

// sumOf adds up a timeline.
func sumOf(t *simulate.Timeline) (sum simulate.Slot) {
	for _, s := range t.Slots {
		sum.Counts, sum.Other = sum.Add(s.Counts), sum.Other+s.Other
	}
	return sum
}

// kinds are what may become of writes, with the last only where there are any.
func kinds(sum simulate.Slot) []part {
	all := parts(sum.Counts, sum.Other)
	if sum.Other == 0 {
		return all[:3]
	}
	return all
}

// title is how p is called.
func (p paint) title() string {
	if p == other {
		return "neither"
	}
	return string(p)
}

func tiles(r *report.Run, sum simulate.Slot) *html.Node {
	all, writes := with(el("dl"), "class", "outcomes"), r.Result.Writes()
	tile := func(what *html.Node, n int64) {
		all.AppendChild(el("div", el("dt", what), el("dd", textf("%s ", report.Grouped(n)), el("small", textf("%s", report.Share(n, writes))))))
	}
	for _, k := range kinds(sum) {
		tile(keyed(k.paint, k.paint.title()), k.n)
	}
	tile(textf("Warnings dropped"), r.WarningsDropped)
	return all
}

// figure is the chart of a timeline, in several widths of which the style sheet shows one, and its figures.
func figure(t *simulate.Timeline, sum simulate.Slot, most int64) *html.Node {
	each := "second"
	if t.Seconds > 1 {
		each = report.Grouped(t.Seconds) + " seconds"
	}
	keys := with(el("span"), "class", "keys")
	heads := []*html.Node{textf("for")}
	for _, k := range kinds(sum) {
		keys.AppendChild(keyed(k.paint, k.paint.title()))
		keys.AppendChild(textf(" "))
		heads = append(heads, textf("%s", k.paint.title()))
	}
	all := el("figure", el("figcaption", textf("Writes every %s, by time in UTC ", each), keys))
	for _, width := range []int{1100, 620, 340} {
		label := fmt.Sprintf("Bars of the writes every %s, stacked by what became of them. The table that follows has their figures.", each)
		all.AppendChild(with(timeline(t, most, width), "class", "timeline w"+strconv.Itoa(width), "role", "img", "aria-label", label))
	}
	rows, slot := el("tbody"), time.Duration(t.Seconds)*time.Second
	for i := 0; i < len(t.Slots); {
		end := i + 1 // those that are equal are one row
		for end < len(t.Slots) && t.Slots[end].Counts == t.Slots[i].Counts && t.Slots[end].Other == t.Slots[i].Other {
			end++
		}
		from := t.Slots[i].Start
		row := el("tr", with(el("th", textf("%s", moment(from))), "scope", "row"), el("td", textf("%s", time.Duration(end-i)*slot)))
		for _, p := range parts(t.Slots[i].Counts, t.Slots[i].Other)[:len(heads)-1] {
			row.AppendChild(number(p.n))
		}
		rows.AppendChild(row)
		i = end
	}
	all.AppendChild(el("details", el("summary", textf("The figures of this chart")), el("table", columns(textf("From"), heads...), rows)))
	return all
}

// headings are what the page calls tables and their rows.
func headings(by busiest.By) (table, row string) {
	switch by {
	case busiest.Policy:
		return "Which policy or quota decided", "Policy or quota"
	case busiest.Source:
		return "Sources with the most writes", "Source"
	case busiest.Object:
		return "Objects with the most writes", "Object"
	case busiest.Reason:
		return "Reasons with the most writes", "Type and reason"
	case busiest.Namespace:
	}
	return "Namespaces with the most writes", "Namespace"
}

// tables list the policies, and what had the most writes.
func tables(r *report.Run) *html.Node {
	all := with(el("div"), "class", "tables")
	for _, t := range r.Tables() {
		most := int64(0)
		for _, row := range t.Rows {
			most = max(most, row.Matched())
		}
		body := el("tbody")
		for _, row := range t.Rows {
			what := el("span", name(row.Name), textf("%s", row.Note))
			if row.Buckets != "" {
				what.AppendChild(el("small", textf("%s", row.Buckets)))
			}
			head := with(el("th", what, bar(most, parts(row.Counts, 0)...)), "scope", "row")
			body.AppendChild(el("tr", head, number(row.Admitted), number(row.Merged), number(row.Dropped)))
		}
		heading, what := headings(t.By)
		heads := columns(textf("%s", what), keyed(admitted, "admitted"), keyed(merged, "merged"), keyed(dropped, "dropped"))
		section := el("section", el("h3", textf("%s", heading)), el("table", heads, body))
		if t.Missing > 0 {
			section.AppendChild(el("p", textf("There are too many to follow: each has up to %s writes more.", report.Grouped(t.Missing))))
		}
		all.AppendChild(section)
	}
	return all
}
