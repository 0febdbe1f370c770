package report

import (
	"io"
	"reflect"
	"text/template/parse"

	"github.com/eventquota/eventquota/admission/simulate"
)

// page is the data of page.gohtml.
type page struct {
	Source         string
	Input          *simulate.Input
	Read, Findings []string
	Etcd, Figures  table
	Compared       bool
	Runs           []pageRun
}

// pageRun is the result of one set of policies.
type pageRun struct {
	Name   string
	Chart  chart
	Tables []table
}

// WritePage writes r as a self-contained HTML page, without scripts, external fonts or images. The charts follow the reader's
// light or dark theme. The same report always gives the same page.
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
