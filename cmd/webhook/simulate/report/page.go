package report

import (
	"io"
	"reflect"
	"text/template/parse"

	"github.com/eventquota/eventquota/admission/simulate"
)

// page is what page.gohtml shows.
type page struct {
	Source         string
	Input          *simulate.Input
	Read, Findings []string
	Etcd, Figures  table
	Compared       bool
	Runs           []pageRun
}

// pageRun is what became of the writes under one set of policies.
type pageRun struct {
	Name   string
	Chart  chart
	Tables []table
}

// WritePage writes r as an HTML page that needs nothing else: no script, no font and no picture from anywhere, and charts
// that follow the reader's choice of light or dark. The same report gives the same page.
func (r *Report) WritePage(w io.Writer) error {
	all, err := parse.Parse("page", `{{define "style"}}`+styleSheet+"{{end}}"+pageSource, "", "")
	if err != nil {
		return err
	}
	return templates(all).execute(w, all["page"].Root, reflect.ValueOf(r.page()))
}

func (r *Report) page() *page {
	p := &page{Source: r.source(), Input: &r.Input, Read: r.inputLines(), Findings: r.findings(), Etcd: r.etcd(), Figures: r.figures(), Compared: r.hasComparison()}
	most := int64(1)
	for _, run := range r.Runs {
		for _, s := range run.Timeline.Slots {
			most = max(most, s.Matched()+s.Other)
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		p.Runs = append(p.Runs, pageRun{run.name(), newChart(&run.Timeline, most), run.tables()})
	}
	return p
}
