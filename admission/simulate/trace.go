// Package simulate finds out what the webhook would have done with Event writes that were recorded
// elsewhere. It asks the Gate that the webhook asks, with a store of its own, a clock that follows the
// time stamps of the writes, and a simulated API server and settler.
//
// Read reads recordings once. Trace.Run runs them under a set of policies, as often as wanted.
package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Input says what was read.
type Input struct {
	// Files are the recordings, in the order in which they were read.
	Files []File `json:"files"`
	// PassedOver are files of directories that have nothing about Events.
	PassedOver int64 `json:"skippedFiles,omitempty"`
	// Entries are lines, items of lists and documents.
	Entries int64 `json:"entries"`
	// Broken are those that could not be read, and BrokenLines the first 10 of them.
	Broken      int64    `json:"broken"`
	BrokenLines []Broken `json:"brokenLines,omitempty"`
	// Skipped are those that are no Event write, by the reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Unknown are Event writes of which the recording does not have the content, by the reason. What would become of them is
	// unknown: they are in no other number.
	Unknown map[string]int64 `json:"unknown,omitempty"`
	// Shifted are Events whose times cannot be right, as the clock of their node is off: the time of their creation has been
	// taken, and the times between their occurrences kept.
	Shifted int64 `json:"timesShifted,omitempty"`
	// Users says whether the recording has the users of writes.
	Users bool `json:"users"`
	// Fewest and Most are the requests that the rest stand for: the same number where the input says
	// how many there were. First and Last are the times of the first and the last.
	Fewest int64     `json:"fewestWrites"`
	Most   int64     `json:"mostWrites"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
}

// clone is a copy of in that shares nothing that is changed.
func (in *Input) clone() Input {
	c := *in
	c.Skipped, c.Unknown = maps.Clone(in.Skipped), maps.Clone(in.Unknown)
	c.Files, c.BrokenLines = slices.Clone(in.Files), slices.Clone(in.BrokenLines)
	return c
}

// File says as what a recording was recognized.
type File struct {
	Name string `json:"name"`
	// Kinds are what it has, by how many entries there are of each: audit logs with their levels, watches and Events.
	Kinds map[string]int64 `json:"kinds,omitempty"`
	// Form is how these follow each other, and Encodings what they were unpacked from, the outermost first.
	Form      string   `json:"form,omitempty"`
	Encodings []string `json:"encodings,omitempty"`
	// Part says that it has a list that is a part of a larger one, and Remaining how many Events that has more, if it says so.
	Part      bool  `json:"part,omitempty"`
	Remaining int64 `json:"remaining,omitempty"`
}

func (f *File) kind(k string) {
	if k == "" {
		return
	}
	if f.Kinds == nil {
		f.Kinds = map[string]int64{}
	}
	f.Kinds[k]++
}

// Broken is an entry that cannot be read.
type Broken struct {
	File string `json:"file"`
	// Line is the number of a line, or of another entry, from 1.
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// Trace is a recording: Event writes in the order of their times. Its methods are for one goroutine at a
// time. The writes are in a temporary file; memory holds some 50 bytes of each while they are read, and then 4.
type Trace struct {
	// Input says what was read.
	Input Input

	decoder decoder
	// spool has the writes, and from end on what one run stores.
	spool *spool
	end   int64
	// index has all writes while they are read, and order has them in the order of their times afterwards.
	index []place
	order []spot
	duplicates
}

// place is where the spool has a write, and its time.
type place struct {
	at     int64 // in nanoseconds of Unix time
	offset int64
}

// compare orders by time. Writes of one moment stay in the order in which they were read.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.offset, other.offset))
}

// Read reads recordings, of which each may be an API server's audit log, a watch, a list of Events or Events, in the forms of package
// recording. The webhook is not asked about requests of exempt users. What cannot be read is counted; an error means that one of
// the sources could not be opened, or that nothing in it can be read.
func Read(ctx context.Context, sources []Source, exempt []string) (*Trace, error) {
	spool, err := newSpool()
	if err != nil {
		return nil, err
	}
	t := &Trace{
		Input: Input{Skipped: map[string]int64{}, Unknown: map[string]int64{}}, spool: spool, duplicates: newRepeats(),
		decoder: decoder{exempt: exempt},
	}
	for _, s := range sources {
		if err := t.read(ctx, s); err != nil {
			t.Close()
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	t.duplicates = duplicates{}
	t.index = slices.DeleteFunc(t.index, func(p place) bool { return p.offset < 0 })
	return t.finish()
}

// finish puts the writes in order.
func (t *Trace) finish() (*Trace, error) {
	slices.SortFunc(t.index, place.compare)
	t.order = make([]spot, len(t.index))
	for i := range t.index {
		t.order[i] = spotOf(t.index[i].offset)
	}
	t.index = nil
	var err error
	if t.end, err = t.spool.flush(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close removes the temporary file.
func (t *Trace) Close() { t.spool.close() }
