package simulate

import (
	"fmt"
	"io"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
)

// figure is one line of figures.
type figure struct {
	name string
	of   func(*simulate.Result) int64
	// always is set for one that is shown although it is 0.
	always bool
}

func outcomes(of ...admission.Outcome) func(*simulate.Result) int64 {
	return func(r *simulate.Result) (n int64) {
		for _, o := range of {
			n += r.Outcomes[simulate.Outcome(o)]
		}
		return n
	}
}

func figures() []figure {
	return []figure{
		{"admitted", outcomes(admission.Admitted, admission.Aggregated, admission.Ignored), true},
		{"  as the first of similar ones", outcomes(admission.Aggregated), false},
		{"merged", outcomes(admission.Merged), true},
		{"dropped", outcomes(admission.Dropped), true},
		{"  of them Warnings", func(r *simulate.Result) int64 { return r.WarningsDropped }, true},
		{"admitted without a decision", outcomes(admission.Undecided), false},
		{"refused without a decision", outcomes(admission.Overloaded), false},
		{"admitted, and refused by the API server", func(r *simulate.Result) int64 { return r.Outcomes[simulate.Failed] }, false},
		{"not known what they write", func(r *simulate.Result) int64 { return r.Outcomes[simulate.Unknown] }, false},
		{"etcd writes before", func(r *simulate.Result) int64 { return r.EtcdWrites.Before }, true},
		{"etcd writes after", func(r *simulate.Result) int64 { return r.EtcdWrites.After }, true},
		{"  by clients", func(r *simulate.Result) int64 { return r.EtcdWrites.Events }, true},
		{"  of counts", func(r *simulate.Result) int64 { return r.EtcdWrites.Counts }, true},
		{"  of notices", func(r *simulate.Result) int64 { return r.EtcdWrites.Notices }, true},
		{"Events stored", func(r *simulate.Result) int64 { return r.Stored }, true},
		{"notices stored", func(r *simulate.Result) int64 { return r.Notices }, true},
	}
}

// printFigures prints the figures of all runs side by side, and what has changed.
func (s *simulation) printFigures(w io.Writer) {
	head := []string{"WRITES"}
	for _, r := range s.Runs {
		head = append(head, r.Policies, "%")
	}
	if len(s.Runs) == 2 {
		head = append(head, "DIFFERENCE")
	}
	rows := [][]string{head}
	for _, f := range figures() {
		row, shown := []string{f.name}, f.always
		values := make([]int64, 0, len(s.Runs))
		for _, r := range s.Runs {
			n := f.of(r.Result)
			values, shown = append(values, n), shown || n != 0
			row = append(row, fmt.Sprint(n), fmt.Sprintf("%.1f", 100*float64(n)/float64(max(s.Input.Writes, 1))))
		}
		if len(values) == 2 {
			row = append(row, fmt.Sprintf("%+d", values[0]-values[1]))
		}
		if shown {
			rows = append(rows, row)
		}
	}
	fmt.Fprintln(w)
	table(w, rows)
}
