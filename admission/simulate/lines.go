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

// readLines reads JSON lines. Empty ones do not count. They are parsed on all
// cores and taken in in their order; a few batches for each core are in memory.
func (r *reader) readLines(ctx context.Context, in *bufio.Reader) error {
	cores := runtime.GOMAXPROCS(0)
	batches := 2*cores + 2
	todo, inOrder, free := make(chan *batch, batches), make(chan *batch, batches), make(chan *batch, batches)
	for range batches {
		free <- &batch{done: make(chan struct{}, 1)}
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(todo)
		defer close(inOrder)
		return cutBatches(in, func(b *batch) (*batch, error) {
			if b != nil {
				inOrder <- b // there is room for all
				todo <- b
			}
			select {
			case b := <-free:
				return b.emptied(), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
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
	parts.Go(func() error { return r.acceptAll(ctx, inOrder, free) })
	return parts.Wait()
}

// acceptAll takes in batches once they are parsed.
func (r *reader) acceptAll(ctx context.Context, inOrder <-chan *batch, free chan<- *batch) error {
	for b := range inOrder {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		begin := 0
		for i := range b.parsed {
			p := &b.parsed[i]
			end := max(begin, p.end)
			if err := r.accept(b.lines[i].number, p, b.parser.out[begin:end]); err != nil {
				return err
			}
			begin = end
		}
		free <- b
	}
	return nil
}

// cutBatches cuts an input into batches. next takes a full one, or nil, and gives
// an empty one.
func cutBatches(in *bufio.Reader, next func(*batch) (*batch, error)) error {
	b, err := next(nil)
	if err != nil {
		return err
	}
	for n := int64(1); ; n++ {
		text, failed := readLine(in, b.text)
		atEnd, long := errors.Is(failed, io.EOF), errors.Is(failed, errLong)
		if failed != nil && !atEnd && !long {
			return fmt.Errorf("line %d: %w", n, failed)
		}
		if long || len(bytes.TrimSpace(text[len(b.text):])) > 0 {
			b.text = text
			b.lines = append(b.lines, numbered{n, len(text), long})
		}
		if len(b.text) >= batchBytes || atEnd && len(b.lines) > 0 {
			if b, err = next(b); err != nil {
				return err
			}
		}
		if atEnd {
			return nil
		}
	}
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
