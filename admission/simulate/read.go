package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	// maxLine is the longest line that is read, in bytes. A request and its response fit in, each as large
	// as the API server takes.
	maxLine = 8 << 20
	// peek is how much of an input decides whether it is a list or lines.
	peek = 64 << 10
	// batchBytes is how much one goroutine parses at a time, unless a line is longer.
	batchBytes = 128 << 10
)

// reader reads one source into a trace.
type reader struct {
	trace  *Trace
	exempt []string
	file   int32
}

func (r *reader) read(ctx context.Context, s Source) error {
	raw, err := s.Open()
	if err != nil {
		return err
	}
	defer raw.Close()
	in := bufio.NewReaderSize(raw, peek)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // shorter ones are no gzip
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(unzipped, peek)
	}
	head, err := in.Peek(peek)
	if len(head) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if isList(head) {
		return r.readList(ctx, in)
	}
	return r.readLines(ctx, in)
}

// user returns the index of a user, given as JSON, whose requests come to the webhook.
func (r *reader) user(text string) (int32, error) {
	i, name, err := r.trace.users.find(text)
	if err == nil && slices.Contains(r.exempt, name) {
		err = errSkipExempt
	}
	return i, err
}

// readLines reads JSON lines. Empty ones do not count. They are parsed on all cores, and added in their order.
func (r *reader) readLines(ctx context.Context, in io.Reader) error {
	c := cutter{in: in, line: 1}
	return ahead(ctx, 2*runtime.GOMAXPROCS(0), func(b *batch) (more bool, err error) {
		more, err = c.cut(b)
		b.reader, b.parsing = r, make(chan struct{})
		go b.parseAll()
		return more, err
	}, func(b *batch) error {
		<-b.parsing
		for i := range b.parsed {
			if err := r.trace.add(r.file, &b.parsed[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch is some lines that follow each other.
type batch struct {
	parser

	first   int64 // the number of the first line
	text    []byte
	parsed  []parsed
	parsing chan struct{} // is closed when parsed is complete
}

func (b *batch) parseAll() {
	b.parsed = b.parsed[:0]
	number := b.first
	for text := range bytes.Lines(b.text) {
		if len(bytes.TrimSpace(text)) > 0 {
			b.parsed = append(b.parsed, b.parse(number, text))
		}
		number++
	}
	close(b.parsing)
}

// cutter cuts an input into batches.
type cutter struct {
	in   io.Reader
	line int64  // the number of the next line
	rest []byte // the beginning of that line
}

// cut cuts whole lines, of batchBytes or more. Of a line that is too long it takes a part that is too long too.
func (c *cutter) cut(b *batch) (more bool, err error) {
	b.text = append(b.text[:0], c.rest...)
	b.text = slices.Grow(b.text, max(batchBytes-len(b.text), len(b.text)))
	for err == nil && len(b.text) < cap(b.text) {
		var n int
		n, err = c.in.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
	}
	end := len(b.text)
	if err == nil {
		end = bytes.LastIndexByte(b.text, '\n') + 1
	}
	c.rest = append(c.rest[:0], b.text[end:min(len(b.text), end+maxLine+1)]...)
	b.first, b.text = c.line, b.text[:end]
	c.line += int64(bytes.Count(b.text, []byte{'\n'}))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("line %d: %w", c.line, err)
	}
	return err == nil, nil
}

// ahead calls use with all that fill fills, in order. Meanwhile fill goes on, by up to n. What use was given is filled
// again.
func ahead[T any](ctx context.Context, n int, fill func(*T) (more bool, err error), use func(*T) error) error {
	pool := &sync.Pool{New: func() any { return new(T) }}
	full := make(chan *T, n)
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(full)
		for more := true; more; {
			one, _ := pool.Get().(*T)
			var err error
			if more, err = fill(one); err != nil {
				return err
			}
			select {
			case full <- one:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	parts.Go(func() error {
		for one := range full {
			if err := use(one); err != nil {
				return err
			}
			pool.Put(one)
		}
		return nil
	})
	return parts.Wait()
}
