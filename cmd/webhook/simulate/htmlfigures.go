package simulate

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/cmd/webhook/htmlpage"
)

// etcdSection says what is left of the writes to etcd.
func (s *simulation) etcdSection() (*html.Node, error) {
	before, most := s.Runs[0].EtcdWrites.Before, int64(0)
	for _, r := range s.Runs {
		most = max(most, r.EtcdWrites.Before, r.EtcdWrites.After)
	}
	head, err := headWithBar(htmlpage.Text("without eventquota"), most, htmlpage.Part{Paint: htmlpage.Before, N: before})
	if err != nil {
		return nil, err
	}
	rows := htmlpage.El("tbody", htmlpage.El("tr", head, htmlpage.Number(before), htmlpage.Number(before), htmlpage.Number(0), htmlpage.Number(0)))
	for _, r := range s.Runs {
		w := r.EtcdWrites
		what := htmlpage.El("span", htmlpage.Text("under "), htmlpage.Name(r.Policies), htmlpage.Text(" "), htmlpage.El("strong", htmlpage.Text("%s", fewer(w.Before, w.After))))
		if head, err = headWithBar(what, most, admittedMergedDropped(w.Events, w.Counts, w.Notices)...); err != nil {
			return nil, err
		}
		rows.AppendChild(htmlpage.El("tr", head, htmlpage.Number(w.After), htmlpage.Number(w.Events), htmlpage.Number(w.Counts), htmlpage.Number(w.Notices)))
	}
	heads := htmlpage.Columns(htmlpage.Text("Writes"), htmlpage.Text("total"), htmlpage.El("span", htmlpage.Key(htmlpage.Admitted), htmlpage.Text("by clients")),
		htmlpage.El("span", htmlpage.Key(htmlpage.Merged), htmlpage.Text("of counts")), htmlpage.El("span", htmlpage.Key(htmlpage.Dropped), htmlpage.Text("of notices")))
	return section("etcd", "Writes to etcd", scrolling("etcd", htmlpage.With(htmlpage.El("table", heads, rows), "class", "etcd"))), nil
}

func fewer(before, after int64) string {
	if after > before {
		return htmlpage.Share(after-before, before) + " more"
	}
	return htmlpage.Share(before-after, before) + " fewer"
}

// figuresSection has the figures of all runs side by side.
func (s *simulation) figuresSection() *html.Node {
	var heads []*html.Node
	for _, r := range s.Runs {
		heads = append(heads, htmlpage.Name(r.Policies), htmlpage.Text("share"))
	}
	if len(s.Runs) == 2 {
		heads = append(heads, htmlpage.Text("difference"))
	}
	rows := htmlpage.El("tbody")
	for _, f := range figures() {
		row, seen := htmlpage.El("tr", htmlpage.With(htmlpage.El("th", htmlpage.Text("%s", strings.TrimSpace(f.name))), "scope", "row")), f.always
		if strings.HasPrefix(f.name, " ") {
			htmlpage.With(row, "class", "part")
		}
		values := make([]int64, 0, len(s.Runs))
		for _, r := range s.Runs {
			n := f.of(r.Result)
			values, seen = append(values, n), seen || n != 0
			row.AppendChild(htmlpage.Number(n))
			row.AppendChild(htmlpage.El("td", htmlpage.Text("%s", htmlpage.Share(n, s.Input.Writes))))
		}
		if len(values) == 2 {
			row.AppendChild(htmlpage.El("td", htmlpage.Text("%s", signed(values[0]-values[1]))))
		}
		if seen {
			rows.AppendChild(row)
		}
	}
	return section("figures", "All figures", scrolling("figures", htmlpage.With(htmlpage.El("table", htmlpage.Columns(htmlpage.Text("Writes"), heads...), rows), "class", "figures")))
}

// signed is n with its sign, unless it is 0.
func signed(n int64) string {
	if n > 0 {
		return "+" + htmlpage.Grouped(n)
	}
	return htmlpage.Grouped(n)
}

// inputSection says what was read, and what of it could not be.
func (s *simulation) inputSection() *html.Node {
	in := &s.Input
	list := htmlpage.El("ul", htmlpage.El("li", htmlpage.Text("%s entries, which tell of %s writes of Events", htmlpage.Grouped(in.Entries), htmlpage.Grouped(in.Writes))))
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		list.AppendChild(htmlpage.El("li", htmlpage.Text("%s skipped: ", htmlpage.Grouped(in.Skipped[why])), htmlpage.Name(why)))
	}
	if in.Broken == 0 {
		return section("input", "What was read", list)
	}
	broken := htmlpage.El("ul")
	for _, b := range in.BrokenLines {
		broken.AppendChild(htmlpage.El("li", htmlpage.Name(b.File), htmlpage.Text(", line %d: ", b.Line), htmlpage.Name(b.Error)))
	}
	if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
		broken.AppendChild(htmlpage.El("li", htmlpage.Text("and %s more", htmlpage.Grouped(more))))
	}
	list.AppendChild(htmlpage.El("li", htmlpage.Text("%s could not be read", htmlpage.Grouped(in.Broken)), broken))
	return section("input", "What was read", list)
}
