package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

// page is what page.gohtml shows.
type page struct {
	Security       string // the Content-Security-Policy, which allows the style sheet and nothing else
	Input          *simulate.Input
	Files          string
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
	ID, Name string
	Outcomes []outcome
	Seconds  int64 // of a bar of Chart
	Chart    chart
	Slots    []pageSlots
	Tables   []table
}

type outcome struct {
	Class, Name string
	Count       int64
	Share       string
}

// pageSlots are slots of a timeline in a row, all with the same counts.
type pageSlots struct {
	simulate.Slot

	For time.Duration
}

// WritePage writes r as an HTML page that needs nothing else: no script, no font and no picture from anywhere, and charts
// that follow the reader's choice of light or dark. The same report gives the same page.
func (r *Report) WritePage(w io.Writer) error {
	all, err := parseTemplates()
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(all["style.css"].Root.String()))
	return all.execute(w, all["page.gohtml"].Root, reflect.ValueOf(r.page(base64.StdEncoding.EncodeToString(hash[:]))))
}

func (r *Report) page(styleHash string) *page {
	p := &page{
		Security: "default-src 'none'; style-src 'sha256-" + styleHash + "'; base-uri 'none'; form-action 'none'",
		Input:    &r.Input, Files: strings.Join(r.Input.Files, ", "), Read: r.read(), Findings: r.findings(),
		Etcd: r.etcd(), Compared: r.compared(), Figures: r.figures(),
	}
	most := int64(1)
	for _, run := range r.Runs {
		for _, s := range run.Timeline.Slots {
			most = max(most, s.Matched()+s.Other)
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		p.Runs = append(p.Runs, pageRun{
			ID: fmt.Sprint("run-", i+1), Name: run.name(), Outcomes: run.outcomes(), Seconds: run.Timeline.Seconds,
			Chart: newChart(&run.Timeline, most), Slots: equalSlots(&run.Timeline), Tables: run.tables(),
		})
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

// outcomes are what became of writes, the last kind only where there are any.
func (r *Run) outcomes() (all []outcome) {
	var sum simulate.Slot
	for _, s := range r.Timeline.Slots {
		sum.Counts, sum.Other = sum.Add(s.Counts), sum.Other+s.Other
	}
	writes := r.Writes()
	for _, p := range parts(sum.Counts, sum.Other) {
		if p.class != "other" || p.n > 0 {
			all = append(all, outcome{p.class, p.class, p.n, share(p.n, writes)})
		}
	}
	return append(all, outcome{"", "Warnings dropped", r.WarningsDropped, share(r.WarningsDropped, writes)})
}

func equalSlots(t *simulate.Timeline) (all []pageSlots) {
	for _, s := range t.Slots {
		last := len(all) - 1
		if last < 0 || all[last].Counts != s.Counts || all[last].Other != s.Other {
			all = append(all, pageSlots{Slot: s})
			last++
		}
		all[last].For += time.Duration(t.Seconds) * time.Second
	}
	return all
}
