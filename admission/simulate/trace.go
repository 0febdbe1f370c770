// Package simulate finds out what the webhook would have done with Event writes that were recorded
// elsewhere. It asks the Gate that the webhook asks, with a store of its own, a clock that follows the
// time stamps of the writes, and a simulated API server and settler.
//
// Read reads a recording once. Trace.Run runs it under a set of policies, as often as wanted.
package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Source is one input.
type Source struct {
	// Name is what reports call it.
	Name string
	// Open opens it. It is called once.
	Open func() (io.ReadCloser, error)
}

// ReadOptions say how to read.
type ReadOptions struct {
	// Exempt are users whose requests the webhook is not asked about.
	Exempt []string
}

// Input says what was read.
type Input struct {
	Files []string `json:"files"`
	// Entries are lines, or elements of a list.
	Entries int64 `json:"entries"`
	// Broken are those that could not be read, and BrokenLines the first 10 of them.
	Broken      int64    `json:"broken"`
	BrokenLines []Broken `json:"brokenLines,omitempty"`
	// Skipped are those that are no Event write, by the reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Fewest and Most are the requests that the rest stand for: the same number where the input says
	// how many there were. First and Last are the times of the first and the last.
	Fewest int64     `json:"fewestWrites"`
	Most   int64     `json:"mostWrites"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
}

// Broken is a line, or an item of a list, that cannot be read.
type Broken struct {
	File string `json:"file"`
	// Line is its number, from 1.
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// Trace is a recording: Event writes in the order of their times. Its methods are for one goroutine at a
// time. The writes are in a temporary file; memory holds 16 bytes of each.
type Trace struct {
	// Input says what was read.
	Input Input

	// spool has the writes, and from end on what one run stores.
	spool *spool
	end   int64
	index []place
}

// place is where the spool has a write.
type place struct {
	at     int64 // in nanoseconds of Unix time
	offset int64
}

// compare orders by time. Writes of one moment stay in the order in which they were read.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.offset, other.offset))
}

// Read reads sources, each an API server's audit log, a watch or Events as JSON lines, or a list of
// Events; compressed by gzip or not. Lines that are broken are counted; an error means that a source
// could not be read at all.
func Read(ctx context.Context, sources []Source, o ReadOptions) (*Trace, error) {
	spool, err := newSpool()
	if err != nil {
		return nil, err
	}
	t := &Trace{Input: Input{Skipped: map[string]int64{}}, spool: spool}
	for i, s := range sources {
		t.Input.Files = append(t.Input.Files, s.Name)
		r := &reader{Trace: t, exempt: o.Exempt, file: i}
		if err := r.read(ctx, s); err != nil {
			t.Close()
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	slices.SortFunc(t.index, place.compare)
	t.end = spool.end
	return t, nil
}

// Close removes the temporary file.
func (t *Trace) Close() { t.spool.close() }
