// Package simulate finds out what the webhook would have done with recorded Event writes. It uses the
// same admission.Gate as the webhook, with its own store, a clock that follows the timestamps of the
// writes, and a simulated API server and settler.
//
// Read reads recordings once. Trace.Run runs them under a set of policies and can be called repeatedly.
package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Input describes what Read found in the recordings.
type Input struct {
	// Files are the recordings, in the order in which they were read.
	Files []File `json:"files"`
	// SkippedFiles is the number of files in directories that contain nothing about Events.
	SkippedFiles int64 `json:"skippedFiles,omitempty"`
	// Entries is the number of lines, list items and documents.
	Entries int64 `json:"entries"`
	// Broken is the number of entries that could not be read. BrokenLines has the first 10 of them.
	Broken      int64    `json:"broken"`
	BrokenLines []Broken `json:"brokenLines,omitempty"`
	// Skipped counts the entries that are not Event writes, by reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Unknown counts Event writes whose content is not in the recording, by reason. They cannot be simulated, so no other
	// number includes them.
	Unknown map[string]int64 `json:"unknown,omitempty"`
	// TimesShifted is the number of Events whose times are wrong because the clock of their node is off. Their times were
	// moved to the time of creation; the intervals between occurrences are unchanged.
	TimesShifted int64 `json:"timesShifted,omitempty"`
	// Users reports whether the recording says which user made each write.
	Users bool `json:"users"`
	// Fewest and Most bound the number of requests that the remaining entries represent. They are equal if the input
	// says how many there were. First and Last are the times of the first and last request.
	Fewest int64     `json:"fewestWrites"`
	Most   int64     `json:"mostWrites"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
}

// clone returns a copy of in that shares no mutable data with it.
func (in *Input) clone() Input {
	c := *in
	c.Skipped, c.Unknown = maps.Clone(in.Skipped), maps.Clone(in.Unknown)
	c.Files, c.BrokenLines = slices.Clone(in.Files), slices.Clone(in.BrokenLines)
	return c
}

// File describes the detected format of a recording.
type File struct {
	Name string `json:"name"`
	// Kinds counts the entries of each kind: audit log entries by level, entries of watches, and Events.
	Kinds map[string]int64 `json:"kinds,omitempty"`
	// Form is the layout of the entries, such as "JSON lines". Encodings lists the compressions, the outermost first.
	Form      string   `json:"form,omitempty"`
	Encodings []string `json:"encodings,omitempty"`
	// Part reports that the file has one page of a longer list. Remaining is the number of Events on later pages, if known.
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

// Broken describes an entry that cannot be read.
type Broken struct {
	File string `json:"file"`
	// Line is the number of a line, or of another entry, from 1.
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// Trace holds recorded Event writes, ordered by time. Only one goroutine at a time may use it. The writes are in a
// temporary file: a Trace takes about 50 bytes of memory per write during Read, and 4 afterwards.
type Trace struct {
	// Input describes what was read.
	Input Input

	decoder decoder
	// spool holds the writes, and from end on the Events that a run stores.
	spool *spool
	end   int64
	// index lists all writes during Read. Afterwards order lists them by time.
	index []place
	order []spot
	duplicates
}

// place is the time of a write and its offset in the spool.
type place struct {
	at     int64 // in nanoseconds of Unix time
	offset int64
}

// compare orders by time, and writes with equal times by their order in the input.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.offset, other.offset))
}

// Exempt selects writes by their user, if the recording names it, or by their namespace.
type Exempt struct{ Users, Namespaces []string }

// Read reads recordings: audit logs of an API server, watches, lists of Events and single Events, in any form that package
// recording supports. It skips exempt writes, about which the API server does not call the webhook. Entries that cannot be read
// are counted. Read fails if a source cannot be opened or contains nothing readable.
func Read(ctx context.Context, sources []Source, exempt Exempt) (*Trace, error) {
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

// finish sorts the writes by time.
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
