package simulate

import (
	"io"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/cmd/webhook/htmlpage"
)

// writeHTML writes the report as one page. The same simulation gives the same
// page.
func (s *simulation) writeHTML(w io.Writer) error {
	etcd, err := s.etcdSection()
	if err != nil {
		return err
	}
	runs, err := s.runArticles()
	if err != nil {
		return err
	}
	heading := "What would have become of " + htmlpage.Grouped(s.Input.Writes) + " Event writes"
	return htmlpage.Write(w, heading,
		htmlpage.El("header", htmlpage.El("h1", htmlpage.Text("%s", heading)), s.about()),
		htmlpage.El("main", etcd, runs, s.figuresSection(), s.inputSection()),
		htmlpage.El("footer", htmlpage.El("p", htmlpage.Text("Made by "), htmlpage.El("code", htmlpage.Text("webhook simulate")),
			htmlpage.Text(" of eventquota, which simulates one replica with its state in memory, and policies that are in force from the beginning to the end. "+
				"A merged write is counted in a stored Event, and a dropped one in a notice."))))
}

// about says what the page is made of.
func (s *simulation) about() *html.Node {
	sets := make([]string, 0, len(s.Runs))
	for _, r := range s.Runs {
		sets = append(sets, r.Policies)
	}
	n := htmlpage.El("p",
		htmlpage.Text("Recorded from %s to %s UTC in ", htmlpage.Moment(s.Input.First), htmlpage.Moment(s.Input.Last)), htmlpage.Names(s.Input.Files, ", "),
		htmlpage.Text("; simulated under "), htmlpage.Names(sets, " and "), htmlpage.Text("."))
	if broken := s.Input.Broken; broken > 0 {
		n.AppendChild(htmlpage.Text(" "))
		n.AppendChild(htmlpage.With(htmlpage.El("a", htmlpage.Text("Not readable: %s.", htmlpage.Grouped(broken))), "href", "#input"))
	}
	return n
}

// runArticles has what became of the writes under each set of policies, side by
// side.
func (s *simulation) runArticles() (*html.Node, error) {
	most := int64(1)
	for _, r := range s.Runs {
		for _, slot := range r.Timeline.Slots {
			most = max(most, slot.Admitted+slot.Merged+slot.Dropped+slot.Other)
		}
	}
	class := "runs"
	if len(s.Runs) > 1 {
		class = "runs compared"
	}
	runs := htmlpage.With(htmlpage.El("div"), "class", class)
	for i := range s.Runs {
		run, err := s.runArticle(i, most)
		if err != nil {
			return nil, err
		}
		runs.AppendChild(run)
	}
	return runs, nil
}

// section is a part of the page with a heading that links lead to.
func section(id, heading string, content ...*html.Node) *html.Node {
	n := htmlpage.With(htmlpage.El("section", htmlpage.With(htmlpage.El("h2", htmlpage.Text("%s", heading)), "id", id)), "aria-labelledby", id)
	for _, c := range content {
		n.AppendChild(c)
	}
	return n
}

// scrolling is what may be wider than the page.
func scrolling(labelledBy string, n *html.Node) *html.Node {
	return htmlpage.With(htmlpage.El("div", n), "class", "scroll", "role", "region", "tabindex", "0", "aria-labelledby", labelledBy)
}

// headWithBar is the head of a row, above a bar of its figures.
func headWithBar(what *html.Node, most int64, parts ...htmlpage.Part) (*html.Node, error) {
	bar, err := htmlpage.Bar(most, parts...)
	if err != nil {
		return nil, err
	}
	return htmlpage.With(htmlpage.El("th", what, bar), "scope", "row"), nil
}

// admittedMergedDropped are the parts of a bar.
func admittedMergedDropped(admitted, merged, dropped int64) []htmlpage.Part {
	return []htmlpage.Part{{Paint: htmlpage.Admitted, N: admitted}, {Paint: htmlpage.Merged, N: merged}, {Paint: htmlpage.Dropped, N: dropped}}
}
