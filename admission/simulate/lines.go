package simulate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// batchBytes is how much of an input goes from hand to hand at a time, but for
// one longer line.
const batchBytes = 128 << 10

var errLong = fmt.Errorf("line is longer than %d bytes", maxLine)

// batch is some lines that follow each other.
type batch struct {
	text   []byte
	lines  []numbered
	parsed []parsed
	done   chan struct{} // closed once parsed is there
}

// numbered is a line, which ends in text where it says, or is too long.
type numbered struct {
	number int64
	end    int
	long   bool
}

// readLines reads JSON lines. Empty ones do not count. They are parsed on all
// cores and taken in in their order; a few batches for each core are in memory.
func (r *reader) readLines(ctx context.Context, in *bufio.Reader) error {
	cores := runtime.GOMAXPROCS(0)
	todo, inOrder := make(chan *batch), make(chan *batch, 2*cores)
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(todo)
		defer close(inOrder)
		return cutBatches(in, func(b *batch) error {
			for _, to := range []chan *batch{inOrder, todo} {
				select {
				case to <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	})
	for range cores {
		parts.Go(func() error {
			for b := range todo {
				b.parse()
			}
			return nil
		})
	}
	parts.Go(func() error { return r.acceptAll(ctx, inOrder) })
	return parts.Wait()
}

// acceptAll takes in batches once they are parsed.
func (r *reader) acceptAll(ctx context.Context, inOrder <-chan *batch) error {
	for b := range inOrder {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		for i, p := range b.parsed {
			if err := r.accept(b.lines[i].number, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutBatches cuts an input into batches.
func cutBatches(in *bufio.Reader, send func(*batch) error) error {
	b := &batch{done: make(chan struct{})}
	for n := int64(1); ; n++ {
		text, err := readLine(in, b.text)
		atEnd, long := errors.Is(err, io.EOF), errors.Is(err, errLong)
		if err != nil && !atEnd && !long {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if long || len(bytes.TrimSpace(text[len(b.text):])) > 0 {
			b.text = text
			b.lines = append(b.lines, numbered{n, len(text), long})
		}
		if len(b.text) >= batchBytes || atEnd && len(b.lines) > 0 {
			if err := send(b); err != nil {
				return err
			}
			b = &batch{done: make(chan struct{})}
		}
		if atEnd {
			return nil
		}
	}
}

func (b *batch) parse() {
	defer close(b.done)
	b.parsed = make([]parsed, len(b.lines))
	begin := 0
	for i, l := range b.lines {
		if l.long {
			b.parsed[i].err = errLong
		} else {
			b.parsed[i] = parseLine(b.text[begin:l.end])
		}
		begin = l.end
	}
	b.text = nil // what is parsed is a copy
}

// readLine appends a line to b. With errLong, the line is over and nothing is
// appended; with io.EOF the line is the last.
func readLine(in *bufio.Reader, b []byte) ([]byte, error) {
	begin, long := len(b), false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(b)-begin+len(part) > maxLine; !long {
			b = append(b, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			if long && errors.Is(err, io.EOF) {
				return b[:begin], errLong // the next call says that this is the end
			}
			return b, err
		case long:
			return b[:begin], errLong
		default:
			return b, nil
		}
	}
}
