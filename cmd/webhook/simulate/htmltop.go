package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/htmlpage"
)

// topRow is one line of a list.
type topRow struct {
	what *html.Node
	busiest.Counts
}

// tables list the policies, and what had the most writes.
func (r *ran) tables() (*html.Node, error) {
	policies := make([]topRow, 0, len(r.Result.Policies))
	for _, p := range r.Result.Policies {
		what := htmlpage.El("span", htmlpage.Name(p.Policy))
		if p.Audited {
			what.AppendChild(htmlpage.Text(" "))
			what.AppendChild(htmlpage.El("em", htmlpage.Text("audited: it would have")))
		}
		if by := bucketList(p.Buckets); by != "" {
			what.AppendChild(htmlpage.El("small", htmlpage.Text("%s", by)))
		}
		policies = append(policies, topRow{what, p.Counts})
	}
	all := htmlpage.With(htmlpage.El("div"), "class", "tables")
	for _, t := range []struct {
		heading, what string
		rows          []topRow
	}{
		{"Which policy did it", "Policy", policies},
		{"Sources with the most writes", "Source", topRows(r.Sources)},
		{"Objects with the most writes", "Object", topRows(r.Objects)},
		{"Reasons with the most writes", "Type and reason", topRows(r.Reasons)},
	} {
		rows, err := topBody(t.rows)
		if err != nil {
			return nil, err
		}
		heads := htmlpage.Columns(htmlpage.Text("%s", t.what), htmlpage.El("span", htmlpage.Key(htmlpage.Admitted), htmlpage.Text("admitted")),
			htmlpage.El("span", htmlpage.Key(htmlpage.Merged), htmlpage.Text("merged")), htmlpage.El("span", htmlpage.Key(htmlpage.Dropped), htmlpage.Text("dropped")))
		all.AppendChild(htmlpage.El("section", htmlpage.El("h3", htmlpage.Text("%s", t.heading)), htmlpage.El("table", heads, rows)))
	}
	return all, nil
}

func topRows(list []simulate.TopCounts) []topRow {
	rows := make([]topRow, 0, len(list))
	for _, t := range list {
		rows = append(rows, topRow{htmlpage.Name(t.Name), t.Counts})
	}
	return rows
}

// topBody gives each row a bar, the longest of them of full width.
func topBody(rows []topRow) (*html.Node, error) {
	most := int64(0)
	for _, r := range rows {
		most = max(most, r.Admitted+r.Merged+r.Dropped)
	}
	body := htmlpage.El("tbody")
	for _, r := range rows {
		head, err := headWithBar(r.what, most, admittedMergedDropped(r.Admitted, r.Merged, r.Dropped)...)
		if err != nil {
			return nil, err
		}
		body.AppendChild(htmlpage.El("tr", head, htmlpage.Number(r.Admitted), htmlpage.Number(r.Merged), htmlpage.Number(r.Dropped)))
	}
	return body, nil
}

// bucketList says what was dropped by which bucket, the one with the most first.
func bucketList(dropped map[string]int64) string {
	var by []string
	for _, bucket := range slices.SortedFunc(maps.Keys(dropped), func(a, b string) int {
		return cmp.Or(cmp.Compare(dropped[b], dropped[a]), cmp.Compare(a, b))
	}) {
		by = append(by, fmt.Sprintf("%s %d", bucket, dropped[bucket]))
	}
	return strings.Join(by, ", ")
}
