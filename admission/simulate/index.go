package simulate

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// indexed is where an entry of a trace is. Entries of one moment stay in the order
// in which they were read.
type indexed struct {
	at int64 // in nanoseconds of Unix time
	span
}

// indexedBytes is what one takes, in memory and in the spool.
const indexedBytes = 16

// sort puts the index in order, and into the spool: only what reads the input
// holds it in memory.
func (t *Trace) sort() error {
	slices.SortFunc(t.index, func(a, b indexed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.span, b.span))
	})
	t.sorted, t.size = t.spool.end(), len(t.index)
	for _, entry := range t.index {
		t.buffer = binary.LittleEndian.AppendUint64(t.buffer[:0], uint64(entry.at))
		t.buffer = binary.LittleEndian.AppendUint64(t.buffer, uint64(entry.span))
		if _, err := t.spool.append(t.buffer); err != nil {
			return err
		}
	}
	t.index = nil
	return t.spool.flush()
}

// cursor reads writes of a sorted trace. Several may be in use at the same time,
// each by one goroutine.
type cursor struct {
	trace        *Trace
	view, sorted view
}

// cursor makes a cursor that reads so many bytes at a time.
func (t *Trace) cursor(most int) cursor {
	v := view{file: t.spool.file, most: most}
	return cursor{trace: t, view: v, sorted: v}
}

// entry is the i-th of the index.
func (c *cursor) entry(i int) (indexed, error) {
	b, err := c.sorted.read(newSpan(c.trace.sorted+int64(i)*indexedBytes, indexedBytes))
	if err != nil {
		return indexed{}, err
	}
	return indexed{int64(binary.LittleEndian.Uint64(b)), span(binary.LittleEndian.Uint64(b[8:]))}, nil
}

// load reads the write of an entry into w, as at does.
func (c *cursor) load(entry indexed, w *write) error {
	if err := c.at(entry.span, w); err != nil {
		return err
	}
	w.at = time.Unix(0, entry.at)
	return nil
}

// at reads the write at a place, without its time. An Event is written to where
// w.event is, or to a new one.
func (c *cursor) at(place span, w *write) error {
	b, err := c.view.read(place)
	if err != nil {
		return err
	}
	if w.event == nil {
		w.event = &corev1.Event{}
	}
	if err := w.decode(b); err != nil {
		return fmt.Errorf("read a temporary file: %w", err)
	}
	w.span = place
	if w.event != nil {
		w.event.Namespace = w.namespace
	}
	return nil
}
