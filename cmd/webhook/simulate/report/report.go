// Package report says what simulations have found: in words, in figures, as text and as JSON.
package report

import (
	"encoding/json"
	"io"

	"github.com/eventquota/eventquota/admission/simulate"
)

// Report is what was read and what became of it. Its JSON is that of simulate -o json.
type Report struct {
	Input simulate.Input `json:"input"`
	// Runs are those of the policies and then, if there are any, those of --compare. The first is the one to judge.
	Runs []Run `json:"runs"`
}

// Run is one set of policies and what became of the input under it.
type Run struct {
	// Under is the name of the set.
	Under string `json:"under"`
	// Writes is "most" or "fewest" where the input does not say how many there were; else empty.
	Writes string `json:"writes,omitempty"`
	*simulate.Result
}

// Compared tells whether the second run is beside the first to see what differs.
func (r *Report) Compared() bool { return len(r.Runs) == 2 && r.Runs[0].Writes == "" }

// Name tells r from the other runs.
func (r *Run) Name() string {
	if r.Writes == "" {
		return r.Under
	}
	return r.Under + ", " + r.Writes + " writes"
}

// WriteJSON writes r as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
