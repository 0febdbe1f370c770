package simulate

import (
	"errors"

	"github.com/eventquota/eventquota/policy"
)

// Trace is what was read: Event writes in the order of their times. Its methods
// are for one goroutine at a time.
type Trace struct {
	// Input says what was read.
	Input Input

	dir    string
	spool  *spool
	index  []indexed         // until it is sorted
	sorted int64             // where it is in the spool then
	size   int               // how many entries it has
	users  []policy.UserInfo // the first is nobody
	byUser map[string]int
	buffer []byte
	failed error // of the spool
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
func (t *Trace) userIndex(u string) (int, error) {
	if i, known := t.byUser[u]; known {
		return i, nil
	}
	var info policy.UserInfo
	if err := decode([]byte(u), &info); err != nil {
		return 0, err
	}
	t.users = append(t.users, info)
	t.byUser[u] = len(t.users) - 1
	return len(t.users) - 1, nil
}

// The years of which Unix time has nanoseconds, and which stores tell apart.
const firstYear, lastYear = 1970, 2112

var errYear = errors.New("time is not from 1970 to 2112")

// add adds a write that was read at a place.
func (t *Trace) add(p *parsed, where place, encoded []byte) error {
	t.buffer = where.append(t.buffer[:0])
	at, err := t.spool.append(t.buffer, encoded)
	if err != nil {
		t.failed = err
		return err
	}
	t.index = append(t.index, indexed{p.first.UnixNano(), at})
	t.Input.Fewest += p.fewest
	t.Input.Most += p.most
	if t.Input.First.IsZero() || p.first.Before(t.Input.First) {
		t.Input.First = p.first.UTC()
	}
	if p.last.After(t.Input.Last) {
		t.Input.Last = p.last.UTC()
	}
	return nil
}
