package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventquota/eventquota/policy"
)

// Trace is what was read: Event writes in the order of their time stamps. Its
// methods are for one goroutine at a time.
type Trace struct {
	// Input says what was read.
	Input Input

	dir    string
	spool  *spool
	index  []indexed
	users  []policy.UserInfo
	byUser map[string]int
	buffer []byte
	failed error // of the spool
}

// indexed is where an entry of a trace is. Entries of one moment stay in the
// order in which they were read.
type indexed struct {
	span

	at int64 // in nanoseconds of Unix time
}

func newTrace(o ReadOptions) (*Trace, error) {
	s, err := newSpool(o.Dir)
	if err != nil {
		return nil, err
	}
	return &Trace{
		Input: Input{Skipped: map[string]int64{}},
		dir:   o.Dir, spool: s,
		users: []policy.UserInfo{{}}, byUser: map[string]int{"": 0},
	}, nil
}

// Close removes the temporary files.
func (t *Trace) Close() { t.spool.close() }

// userIndex is the index of a user. Many writes are by few users.
func (t *Trace) userIndex(u jsontext.Value) (int, error) {
	if i, known := t.byUser[string(u)]; known {
		return i, nil
	}
	var info policy.UserInfo
	if err := decode(u, &info); err != nil {
		return 0, err
	}
	t.users = append(t.users, info)
	t.byUser[string(u)] = len(t.users) - 1
	return len(t.users) - 1, nil
}

// The years of which Unix time has nanoseconds, and which stores tell apart.
const firstYear, lastYear = 1970, 2112

var errYear = errors.New("time is not from 1970 to 2112")

func (t *Trace) add(w *write) error {
	var err error
	if t.buffer, err = w.append(t.buffer[:0]); err != nil {
		return t.fail(err)
	}
	at, err := t.spool.append(t.buffer)
	if err != nil {
		return t.fail(err)
	}
	t.index = append(t.index, indexed{at, w.at.UnixNano()})
	n, last := int64(1), w.last()
	if w.verb == stored {
		n = steps(w.event)
	}
	t.Input.Writes += n
	if t.Input.First.IsZero() || w.at.Before(t.Input.First) {
		t.Input.First = w.at.UTC()
	}
	if last.After(t.Input.Last) {
		t.Input.Last = last.UTC()
	}
	return nil
}

func (t *Trace) fail(err error) error {
	t.failed = err
	return err
}

// last is when the last of the writes comes that w stands for.
func (w *write) last() time.Time {
	if w.verb != stored {
		return w.at
	}
	_, last, _ := times(w.event)
	return last
}

// inRange tells whether the time of w can be simulated.
func (w *write) inRange() error {
	if w.at.Year() < firstYear || w.last().Year() >= lastYear {
		return errYear
	}
	return nil
}

func (t *Trace) sort() error {
	slices.SortFunc(t.index, func(a, b indexed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.offset, b.offset))
	})
	return t.spool.flush()
}

// load reads the write at an entry.
func (t *Trace) load(i int) (*write, error) {
	w, err := t.at(t.index[i].span)
	if err != nil {
		return nil, err
	}
	w.at = time.Unix(0, t.index[i].at)
	return w, nil
}

// at reads the write at a place, without its time.
func (t *Trace) at(place span) (*write, error) {
	b, err := t.spool.read(place)
	if err != nil {
		return nil, err
	}
	w, err := readWrite(b)
	if err != nil {
		return nil, fmt.Errorf("read a temporary file: %w", err)
	}
	w.span = place
	if w.event != nil {
		w.event.Namespace = w.namespace
	}
	return w, nil
}
