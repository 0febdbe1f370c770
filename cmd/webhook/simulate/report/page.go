package report

import (
	"io"
	"reflect"
	"text/template/parse"

	"github.com/eventquota/eventquota/admission/simulate"
)

// page is what page.gohtml shows.
type page struct {
	Input          *simulate.Input
	Read, Findings []string
	Etcd           []etcdRow
	Runs           []pageRun
	Compared       bool
	Figures        []figure
}

// etcdRow is what reaches etcd under a set of policies, or without eventquota.
type etcdRow struct {
	simulate.EtcdWrites

	Under, Fewer string
	Bar          []rect
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
	p := &page{Input: &r.Input, Read: r.read(), Findings: r.findings(), Etcd: r.etcd(), Compared: r.compared(), Figures: r.figures()}
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

// etcd has a row of each run, and one without eventquota before those that have as many writes to begin with.
func (r *Report) etcd() (rows []etcdRow) {
	most := int64(1)
	for _, run := range r.Runs {
		most = max(most, run.EtcdWrites.Before, run.EtcdWrites.After)
	}
	for i, run := range r.Runs {
		w := run.EtcdWrites
		if i == 0 || w.Before != r.Runs[i-1].EtcdWrites.Before {
			without := simulate.EtcdWrites{After: w.Before, Events: w.Before}
			rows = append(rows, etcdRow{EtcdWrites: without, Bar: bar(most, part{"before", w.Before})})
		}
		bar := bar(most, part{"admitted", w.Events}, part{"merged", w.Counts}, part{"dropped", w.Notices})
		rows = append(rows, etcdRow{w, run.name(), fewer(w.Before, w.After), bar})
	}
	return rows
}
