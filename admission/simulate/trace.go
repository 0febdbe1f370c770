// Package simulate finds out what the webhook would have done with Event writes that were recorded
// elsewhere. It asks the Gate that the webhook asks, with a store of its own, a clock that follows the
// time stamps of the writes, and a simulated API server and settler.
//
// Read reads a recording once. Trace.Run runs it under a set of policies, as often as wanted.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/policy"
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
	// Dir is where temporary files go; empty stands for the system's default. They hold each Event
	// once, until the Trace is closed.
	Dir string
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

// shownBroken is how many broken lines are listed.
const shownBroken = 10

// Trace is a recording: Event writes in the order of their times. Its methods are for one goroutine at a
// time. The writes are in a temporary file; memory holds 16 bytes of each.
type Trace struct {
	// Input says what was read.
	Input Input

	// spool has the writes, and from end on what one run stores.
	spool *spool
	end   int64
	index []indexed
	users users
}

// indexed is where the spool has a write.
type indexed struct {
	at     int64 // in nanoseconds of Unix time
	offset int64
}

// Read reads sources, each an API server's audit log, a watch or Events as JSON lines, or a list of
// Events; compressed by gzip or not. Lines that are broken are counted; an error means that a source
// could not be read at all.
func Read(ctx context.Context, sources []Source, o ReadOptions) (*Trace, error) {
	s, err := newSpool(o.Dir)
	if err != nil {
		return nil, err
	}
	t := &Trace{
		Input: Input{Skipped: map[string]int64{}}, spool: s,
		users: users{all: []policy.UserInfo{{}}, known: map[string]int32{"": 0}},
	}
	for i, s := range sources {
		t.Input.Files = append(t.Input.Files, s.Name)
		r := &reader{trace: t, exempt: o.Exempt, file: int32(i)}
		if err := r.read(ctx, s); err != nil {
			t.Close()
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	// Writes of one moment stay in the order in which they were read.
	slices.SortFunc(t.index, func(a, b indexed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.offset, b.offset))
	})
	t.end = s.end
	if err := s.flush(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close removes the temporary file.
func (t *Trace) Close() { t.spool.close() }

// add adds what was parsed of a line. It fails only when the temporary file does.
func (t *Trace) add(file int32, p *parsed) error {
	in := &t.Input
	in.Entries++
	if why, ok := errors.AsType[skipped](p.err); ok {
		in.Skipped[string(why)]++
		return nil
	}
	if p.err != nil {
		in.Broken++
		if len(in.BrokenLines) < shownBroken {
			in.BrokenLines = append(in.BrokenLines, Broken{File: in.Files[file], Line: p.number, Error: clip(p.err.Error())})
		}
		return nil
	}
	offset, err := t.spool.append(p.record)
	if err != nil {
		return err
	}
	t.index = append(t.index, indexed{p.first.UnixNano(), offset})
	in.Fewest += p.fewest
	in.Most += p.most
	if in.First.IsZero() || p.first.Before(in.First) {
		in.First = p.first.UTC()
	}
	if p.last.After(in.Last) {
		in.Last = p.last.UTC()
	}
	return nil
}

// clip bounds a message about a line, which may be of any length and hold anything.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

// users are those who wrote, of whom there are few. The first is for writes whose user is not known.
type users struct {
	mu    sync.Mutex
	all   []policy.UserInfo
	known map[string]int32 // their indexes, by their JSON
}

// find returns the index and the name of a user, given the user's JSON.
func (u *users) find(text string) (i int32, name string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i, known := u.known[text]
	if !known {
		var info policy.UserInfo
		if err := decode([]byte(text), &info); err != nil {
			return 0, "", fmt.Errorf("user: %w", err)
		}
		i = int32(len(u.all))
		u.all = append(u.all, info)
		u.known[text] = i
	}
	return i, u.all[i].Username, nil
}
