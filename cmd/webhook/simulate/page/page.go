// Package page shows a simulation as an HTML page that needs nothing else: no script, no font and no
// picture from anywhere, and charts that follow the reader's choice of light or dark.
//
// A page is a tree of nodes, so that no text from outside can become an element. A template would do as
// well, but html/template calls methods by name, for which the linker keeps every method of a program:
// 27 MB of this one.
package page

import (
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

const title = "Simulation of event quotas"

// Write writes the page of a report. The same report gives the same page.
func Write(w io.Writer, r *report.Report) error {
	findings := el("ul")
	for _, finding := range r.Findings() {
		findings.AppendChild(el("li", el("bdi", textf("%s", finding))))
	}
	return writePage(w, title,
		el("header", el("h1", textf(title)), about(r), with(findings, "class", "findings")),
		el("main", etcd(r), runs(r), figures(r), input(r)),
		el("footer", el("p", textf("Made by "), el("code", textf("eventquota simulate")),
			textf(", which simulates one replica with its state in memory, and policies that are in force from the beginning to the end. "+
				"A merged write is counted in a stored Event, and a dropped one in a notice."))))
}

// about says what the page is made of.
func about(r *report.Report) *html.Node {
	sets := make([]string, 0, len(r.Runs))
	for _, run := range r.Runs {
		sets = append(sets, run.Under)
	}
	n := el("p", textf("What would have become of the Event writes from %s to %s UTC, recorded in ", moment(r.Input.First), moment(r.Input.Last)),
		names(r.Input.Files, ", "), textf(", under "), names(slices.Compact(sets), " and "), textf("."))
	if broken := r.Input.Broken; broken > 0 {
		n.AppendChild(textf(" "))
		n.AppendChild(with(el("a", textf("Not readable: %s.", report.Grouped(broken))), "href", "#input"))
	}
	return n
}

// section is a part of the page with a heading that links lead to.
func section(id, heading string, content *html.Node) *html.Node {
	return with(el("section", with(el("h2", textf("%s", heading)), "id", id), content), "aria-labelledby", id)
}

// scrolling is what may be wider than the page.
func scrolling(labelledBy string, n *html.Node) *html.Node {
	return with(el("div", n), "class", "scroll", "role", "region", "tabindex", "0", "aria-labelledby", labelledBy)
}

// etcd says what is left of the writes to etcd.
func etcd(r *report.Report) *html.Node {
	most := int64(0)
	for _, run := range r.Runs {
		most = max(most, run.EtcdWrites.Before, run.EtcdWrites.After)
	}
	rows := el("tbody")
	for i, run := range r.Runs {
		w := run.EtcdWrites
		if i == 0 || w.Before != r.Runs[i-1].EtcdWrites.Before {
			head := el("th", textf("without eventquota"), bar(most, part{before, w.Before}))
			rows.AppendChild(el("tr", with(head, "scope", "row"), number(w.Before), number(w.Before), number(0), number(0)))
		}
		head := el("th", textf("under "), name(run.Name()), textf(" "), el("strong", textf("%s", report.Fewer(w.Before, w.After))),
			bar(most, part{admitted, w.Events}, part{merged, w.Counts}, part{dropped, w.Notices}))
		rows.AppendChild(el("tr", with(head, "scope", "row"), number(w.After), number(w.Events), number(w.Counts), number(w.Notices)))
	}
	heads := columns(textf("Writes"), textf("total"), keyed(admitted, "by clients"), keyed(merged, "of counts"), keyed(dropped, "of notices"))
	return section("etcd", "Writes to etcd", scrolling("etcd", with(el("table", heads, rows), "class", "etcd")))
}

// figures has the figures of all runs side by side.
func figures(r *report.Report) *html.Node {
	all := r.Figures("Writes", "share", "difference")
	var heads []*html.Node
	for _, head := range all[0] {
		heads = append(heads, name(head))
	}
	rows := el("tbody")
	for _, figure := range all[1:] {
		row := el("tr", with(el("th", textf("%s", strings.TrimSpace(figure[0]))), "scope", "row"))
		if strings.HasPrefix(figure[0], " ") {
			with(row, "class", "part")
		}
		for _, cell := range figure[1:] {
			row.AppendChild(el("td", textf("%s", cell)))
		}
		rows.AppendChild(row)
	}
	return section("figures", "All figures", scrolling("figures", with(el("table", columns(heads[0], heads[1:]...), rows), "class", "figures")))
}

// input says what was read, and what of it could not be.
func input(r *report.Report) *html.Node {
	in := &r.Input
	list := el("ul", el("li", textf("%s entries", report.Grouped(in.Entries))))
	for _, why := range slices.Sorted(maps.Keys(in.Skipped)) {
		list.AppendChild(el("li", textf("%s skipped: ", report.Grouped(in.Skipped[why])), name(why)))
	}
	if in.Broken > 0 {
		broken := el("ul")
		for _, b := range in.BrokenLines {
			broken.AppendChild(el("li", name(b.File), textf(", line %d: ", b.Line), name(b.Error)))
		}
		if more := in.Broken - int64(len(in.BrokenLines)); more > 0 {
			broken.AppendChild(el("li", textf("and %s more", report.Grouped(more))))
		}
		list.AppendChild(el("li", textf("%s could not be read", report.Grouped(in.Broken)), broken))
	}
	return section("input", "What was read", list)
}
