package page

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

func TestThePageHasEachTable(t *testing.T) {
	counts := busiest.Counts{Admitted: 1, Merged: 2, Dropped: 1003}
	result := &simulate.Result{
		Outcomes: map[admission.Outcome]int64{admission.Admitted: 2, admission.Merged: 4, admission.Dropped: 2006},
		Rules: []simulate.RuleCounts{
			{Rule: "silence", Counts: counts, Buckets: map[string]int64{"spam filter": 3, "all": 1000}},
			{Rule: "trial", Audited: true},
		},
		Busiest: map[busiest.By]busiest.Ranking{
			busiest.Source: {Rows: []busiest.Row{{Name: "kubelet", Counts: counts, Missing: 7000}, {Name: "scheduler", Counts: counts}}},
			busiest.Object: {Rows: []busiest.Row{{Name: "Pod shop/web-0", Counts: counts}}},
			busiest.Reason: {Rows: []busiest.Row{{Name: "Warning BackOff", Counts: counts}}},
		},
		Timeline: simulate.Timeline{Seconds: 2, Slots: []simulate.Slot{{Start: time.Unix(2, 0), Counts: counts}, {Start: time.Unix(4, 0), Counts: counts}}},
	}
	var b bytes.Buffer
	if err := Write(&b, &report.Report{Runs: []report.Run{{Under: "default", Result: result}}}); err != nil {
		t.Fatal(err)
	}
	const figures = "</svg></th><td>1</td><td>2</td><td>1,003</td>"
	for _, want := range []string{
		`silence</bdi><small>all 1,000, spam filter 3</small></span><svg`,
		`trial</bdi> (audited: would have)</span><svg`,
		`kubelet</bdi> and 1 more, each</span><svg`,
		`There are too many to follow: each has up to 7,000 writes more.`,
		`Which policy or quota decided`, `Sources with the most writes`, `Objects with the most writes`, `Reasons with the most writes`, `Type and reason`,
		`<th scope="row">1970-01-01 00:00:02</th><td>4s</td><td>1</td><td>2</td><td>1,003</td>`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(b.String(), figures); n != 4 {
		t.Errorf("the page has %d rows of %q, want 4", n, figures)
	}
}
