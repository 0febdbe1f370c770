// Package simulate finds out what the webhook would have done with Event writes that were recorded
// elsewhere. It asks the Gate that the webhook asks, with a store of its own, a clock that follows the
// time stamps of the writes, and a simulated API server and settler.
//
// Read reads a recording once. Trace.Run runs it under a set of policies, as often as wanted.
package simulate

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Input says what was read.
type Input struct {
	// Name is what reports call it.
	Name string `json:"name"`
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
	// Line is its number, from 1.
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// Trace is a recording: Event writes in the order of their times. Its methods are for one goroutine at a
// time. The writes are in a temporary file; memory holds 16 bytes of each.
type Trace struct {
	// Input says what was read.
	Input Input

	exempt []string
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

// Read reads an API server's audit log, a watch or Events as JSON lines, or a list of Events. The webhook is not asked
// about requests of exempt users. Lines that are broken are counted; an error means that in, whose name reports have,
// could not be read.
func Read(ctx context.Context, name string, in io.Reader, exempt []string) (*Trace, error) {
	spool, err := newSpool()
	if err != nil {
		return nil, err
	}
	t := &Trace{Input: Input{Name: name, Skipped: map[string]int64{}}, exempt: exempt, spool: spool}
	if err := t.read(ctx, bufio.NewReaderSize(in, peek)); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.SortFunc(t.index, place.compare)
	t.end = spool.end
	return t, nil
}

// Close removes the temporary file.
func (t *Trace) Close() { t.spool.close() }
