package simulate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventquota/eventquota/admission"
)

const (
	// maxLine is the longest line that is read, in bytes. A request and its response fit in, each as large
	// as the API server takes.
	maxLine = 8 << 20
	// peek is how much of an input decides whether it is a list or lines.
	peek = 64 << 10
	// shownBroken is how many broken lines are listed.
	shownBroken = 10
	// errorBytes bounds what is said of a line or a condition, which may hold anything.
	errorBytes = 200
)

func (t *Trace) read(ctx context.Context, in *bufio.Reader) error {
	head, _ := in.Peek(peek) // reading on tells the error
	if toItems(jsontext.NewDecoder(bytes.NewReader(head), lenient())) {
		return t.readList(ctx, jsontext.NewDecoder(in, lenient()))
	}
	return t.readLines(ctx, in)
}

// readLines reads JSON lines. Empty ones do not count.
func (t *Trace) readLines(ctx context.Context, in *bufio.Reader) error {
	var line []byte
	for number, last := int64(1), false; !last && ctx.Err() == nil; number++ {
		var err error
		line, err = nextLine(in, line)
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			w, err := parseLine(line)
			if err := t.add(number, w, err); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// nextLine reads a line into b. Of one that is too long it keeps a part that is too long as well.
func nextLine(in *bufio.Reader, b []byte) ([]byte, error) {
	b = b[:0]
	for {
		part, err := in.ReadSlice('\n')
		if len(b) <= maxLine {
			b = append(b, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b, err
		}
	}
}

// readList reads the items of a list, one at a time. Where it is no JSON any more, nothing says where the next item
// begins: the rest counts as one broken item.
func (t *Trace) readList(ctx context.Context, d *jsontext.Decoder) error {
	toItems(d)
	for number := int64(1); d.PeekKind() != ']' && ctx.Err() == nil; number++ {
		item, err := d.ReadValue()
		_, broken := errors.AsType[*jsontext.SyntacticError](err)
		switch {
		case broken:
			return t.add(number, nil, fmt.Errorf("the rest of the list is not read: %w", err))
		case err != nil:
			return fmt.Errorf("item %d: %w", number, err)
		}
		w, err := parseEvent(stored, item)
		if err := t.add(number, w, err); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// toItems goes into the array "items" of an object, and reports whether there is one.
func toItems(d *jsontext.Decoder) bool {
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return false
		}
		if name.String() == "items" {
			begin, err := d.ReadToken()
			return err == nil && begin.Kind() == '['
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return false
}

// add adds an entry: a write, or why it is none. It fails only when the temporary file does.
func (t *Trace) add(number int64, w *write, err error) error {
	in := &t.Input
	in.Entries++
	if err == nil && slices.Contains(t.exempt, w.User.Username) {
		err = skipped("requests of users that the webhook is not asked about")
	}
	if why, ok := errors.AsType[skipped](err); ok {
		in.Skipped[string(why)]++
		return nil
	}
	if err != nil {
		in.Broken++
		if len(in.BrokenLines) < shownBroken {
			in.BrokenLines = append(in.BrokenLines, Broken{Line: number, Error: admission.Truncate(err.Error(), errorBytes)})
		}
		return nil
	}
	w.Line = number
	offset, err := t.spool.append(w)
	if err != nil {
		return err
	}
	t.index = append(t.index, place{w.At.UnixNano(), offset})
	in.Fewest += Fewest.steps(w)
	in.Most += Most.steps(w)
	if in.First.IsZero() || w.At.Before(in.First) {
		in.First = w.At.UTC()
	}
	if w.Last.After(in.Last) {
		in.Last = w.Last.UTC()
	}
	return nil
}
