package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
)

// sampleReport returns a report with all kinds of content. Names come from source.
func sampleReport(source string) *Report {
	counts := busiest.Counts{Admitted: 1, Merged: 2, Dropped: 1003}
	result := &simulate.Result{
		Outcomes: map[admission.Outcome]int64{admission.Admitted: 2, admission.Merged: 4, admission.Dropped: 2006},
		Rules: []simulate.RuleCounts{
			{Rule: "silence", Counts: counts, Buckets: map[string]int64{"spam filter": 3, "all": 1000}},
			{Rule: "trial", Audited: true},
		},
		Busiest: map[busiest.Dimension]busiest.Ranking{
			busiest.Source: {Total: busiest.Counts{Dropped: 3017}, Rows: []busiest.Row{{Name: source, Counts: counts}, {Name: "scheduler", Counts: counts}}},
			busiest.Object: {Rows: []busiest.Row{{Name: "Pod shop/web-0", Counts: counts}}},
			busiest.Reason: {Rows: []busiest.Row{{Name: "Warning BackOff", Counts: counts}}},
		},
		Timeline: simulate.Timeline{Seconds: 2, Slots: []simulate.Slot{{Start: time.Unix(2, 0), Counts: counts}, {Start: time.Unix(4, 0), Counts: counts}}},
	}
	return &Report{
		Input: simulate.Input{Files: []simulate.File{{Name: source}}, Broken: 1, BrokenLines: []simulate.Broken{{File: source, Line: 7, Error: source}}},
		Runs:  []Run{{Policies: source, Result: result}},
	}
}

// renderPage returns the HTML page of r.
func renderPage(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WritePage(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPageHasAllTables(t *testing.T) {
	page := renderPage(t, sampleReport("kubelet"))
	const figures = "</svg></th><td>1</td><td>2</td><td>1,003</td>"
	for _, want := range []string{
		`silence</bdi>: all 1,000, spam filter 3<svg`,
		`trial</bdi> (mode Audit)</th><td>0</td>`,
		`kubelet</bdi> and 1 more, each<svg`,
		`1,005 writes are not attributed, because there are too many names to track.`,
		`<caption>Policies and quotas</caption>`, `<caption>Busiest sources</caption>`, `<caption>Busiest objects</caption>`, `<caption>Busiest reasons</caption>`,
		`under kubelet</bdi>: no change</th><td>0</td>`, `dropped</bdi></th><td>2,006</td><td>99.7 %</td>`,
		`dy="4">1,006</text>`,
		`<a href="#input">Unreadable entries: 1.</a>`, `<bdi>cannot be read: kubelet:7: kubelet</bdi>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if n := strings.Count(page, figures); n != 4 {
		t.Errorf("the page has %d rows of %q, want 4", n, figures)
	}
}
