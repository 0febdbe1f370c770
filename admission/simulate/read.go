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
	// maxLine is the longest line that is read, in bytes. It has room for a request and its response,
	// each as large as the API server takes.
	maxLine = 8 << 20
	// peek is how much of an input is looked at to tell a list from lines.
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
		err = skipExempt
	}
	return i, err
}

// batch is some lines that follow each other, which one goroutine parses.
type batch struct {
	parser

	first  int64 // the number of the first line
	text   []byte
	parsed []parsed
	done   chan struct{} // has one when parsed is complete
}

// readLines reads JSON lines. Empty ones do not count. Batches of them are parsed on all cores and added in their
// order.
func (r *reader) readLines(ctx context.Context, in io.Reader) error {
	pool := &sync.Pool{New: func() any { return &batch{parser: parser{reader: r}, done: make(chan struct{}, 1)} }}
	inOrder := make(chan *batch, 2*runtime.GOMAXPROCS(0)) // it bounds those in memory
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		defer close(inOrder)
		return cutLines(in, pool, func(b *batch) error {
			select {
			case inOrder <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
			parts.Go(func() error {
				b.parse()
				b.done <- struct{}{}
				return nil
			})
			return nil
		})
	})
	parts.Go(func() error {
		for b := range inOrder {
			<-b.done
			for i := range b.parsed {
				if err := r.trace.add(r.file, &b.parsed[i]); err != nil {
					return err
				}
			}
			pool.Put(b)
		}
		return nil
	})
	return parts.Wait()
}

// parse parses all lines.
func (b *batch) parse() {
	b.records, b.parsed = b.records[:0], b.parsed[:0]
	number := b.first
	for text := range bytes.Lines(b.text) {
		if len(bytes.TrimSpace(text)) > 0 {
			b.parsed = append(b.parsed, b.parser.parse(number, text))
		}
		number++
	}
}

// fill reads until b has batchBytes, or twice as much as it had.
func (b *batch) fill(in io.Reader) error {
	b.text = slices.Grow(b.text, max(batchBytes-len(b.text), len(b.text)))
	for len(b.text) < cap(b.text) {
		n, err := in.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		if err != nil {
			return err
		}
	}
	return nil
}

// cutLines cuts an input into batches of whole lines. Of a line that is too long it gives a part that is too long too.
func cutLines(in io.Reader, pool *sync.Pool, give func(*batch) error) error {
	newline := []byte{'\n'}
	b, _ := pool.Get().(*batch)
	for line := int64(1); ; {
		failed := b.fill(in)
		atEnd, end := errors.Is(failed, io.EOF), len(b.text)
		if failed == nil {
			end = bytes.LastIndexByte(b.text, '\n') + 1
		}
		next, _ := pool.Get().(*batch) // begins with the line that has not ended
		next.text = append(next.text[:0], b.text[end:min(len(b.text), end+maxLine+1)]...)
		b.first, b.text = line, b.text[:end]
		line += int64(bytes.Count(b.text, newline))
		if failed != nil && !atEnd {
			return fmt.Errorf("line %d: %w", line, failed)
		}
		if err := give(b); err != nil || atEnd {
			return err
		}
		b = next
	}
}
