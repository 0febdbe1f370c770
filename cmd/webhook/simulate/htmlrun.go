package simulate

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/htmlpage"
)

// outcomeCount is how many writes came to one end.
type outcomeCount struct {
	paint htmlpage.Paint
	name  string
	n     int64
}

// outcomeCounts adds up a timeline. It has the fourth only where there are any.
func outcomeCounts(t *simulate.Timeline) []outcomeCount {
	all := []outcomeCount{{htmlpage.Admitted, "admitted", 0}, {htmlpage.Merged, "merged", 0}, {htmlpage.Dropped, "dropped", 0}, {htmlpage.Other, "neither", 0}}
	for _, s := range t.Slots {
		for i, n := range []int64{s.Admitted, s.Merged, s.Dropped, s.Other} {
			all[i].n += n
		}
	}
	if all[3].n == 0 {
		return all[:3]
	}
	return all
}

// runArticle says what became of the writes under one set of policies. most is
// the highest bar of all timelines.
func (s *simulation) runArticle(i int, most int64) (*html.Node, error) {
	r, id := &s.Runs[i], "run-"+strconv.Itoa(i+1)
	heading := htmlpage.El("h2", htmlpage.Text("Decisions"))
	if len(s.Runs) > 1 {
		heading = htmlpage.El("h2", htmlpage.Text("Under "), htmlpage.Name(r.Policies))
	}
	counts := outcomeCounts(&r.Timeline)
	tiles := htmlpage.With(htmlpage.El("dl"), "class", "outcomes")
	for _, o := range append(slices.Clip(counts), outcomeCount{"", "Warnings dropped", r.WarningsDropped}) {
		what := htmlpage.El("dt", htmlpage.Text("%s", o.name))
		if o.paint != "" {
			what = htmlpage.El("dt", htmlpage.Key(o.paint), htmlpage.Text("%s", o.name))
		}
		tiles.AppendChild(htmlpage.El("div", what, htmlpage.El("dd", htmlpage.Text("%s ", htmlpage.Grouped(o.n)), htmlpage.El("small", htmlpage.Text("%s", htmlpage.Share(o.n, s.Input.Writes))))))
	}
	timeline, err := timelineFigure(&r.Timeline, counts, most)
	if err != nil {
		return nil, err
	}
	article := htmlpage.With(htmlpage.El("article", htmlpage.With(heading, "id", id), tiles, timeline), "aria-labelledby", id)
	tables, err := r.tables()
	if err != nil {
		return nil, err
	}
	article.AppendChild(tables)
	return article, nil
}

// timelineFigure is the chart of a timeline, in several widths of which the
// style sheet shows one, and its figures.
func timelineFigure(t *simulate.Timeline, counts []outcomeCount, most int64) (*html.Node, error) {
	each := "second"
	if t.Seconds > 1 {
		each = htmlpage.Grouped(t.Seconds) + " seconds"
	}
	keys := htmlpage.With(htmlpage.El("span"), "class", "keys")
	heads := make([]*html.Node, 0, len(counts))
	for _, c := range counts {
		keys.AppendChild(htmlpage.El("span", htmlpage.Key(c.paint), htmlpage.Text("%s", c.name)))
		keys.AppendChild(htmlpage.Text(" "))
		heads = append(heads, htmlpage.Text("%s", c.name))
	}
	figure := htmlpage.El("figure", htmlpage.El("figcaption", htmlpage.Text("Writes every %s, by time in UTC ", each), keys))
	for _, width := range []int{1100, 620, 340} {
		chart, err := htmlpage.Timeline(t, most, width)
		if err != nil {
			return nil, err
		}
		label := fmt.Sprintf("Bars of the writes every %s, stacked by what became of them. The table that follows has their figures.", each)
		figure.AppendChild(htmlpage.With(chart, "class", "timeline w"+strconv.Itoa(width), "role", "img", "aria-label", label))
	}
	rows := htmlpage.El("tbody")
	for _, s := range t.Slots {
		row := htmlpage.El("tr", htmlpage.With(htmlpage.El("th", htmlpage.Text("%s", htmlpage.Moment(s.Start))), "scope", "row"), htmlpage.Number(s.Admitted), htmlpage.Number(s.Merged), htmlpage.Number(s.Dropped))
		if len(counts) > 3 {
			row.AppendChild(htmlpage.Number(s.Other))
		}
		rows.AppendChild(row)
	}
	figure.AppendChild(htmlpage.El("details", htmlpage.El("summary", htmlpage.Text("The figures of this chart")), htmlpage.El("table", htmlpage.Columns(htmlpage.Text("From"), heads...), rows)))
	return figure, nil
}
