// Package recording reads recorded Events in the forms that tools write: JSON lines, concatenated JSON, arrays, lists and YAML.
// The input may be compressed, in UTF-8 or UTF-16, and have a prefix on each line. The package does not interpret the entries.
package recording

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxLine is the maximum length of a line in bytes. It has space for a request and its response, each of the maximum size
	// that the API server accepts.
	MaxLine = 8 << 20
	// peekBytes is the length of the beginning of an input that is used to detect its form.
	peekBytes = 64 << 10
)

// Entry is an entry of a recording: a line, an item of a list or array, or a document.
type Entry struct {
	// Number is the number of the line or entry, starting at 1.
	Number int64
	// Text is the JSON of the entry, unless Err is set. It is valid only during the call that receives the entry.
	Text []byte
	Err  error
	// APIVersion is the apiVersion of the surrounding list, which applies to items without one. It is empty if there is no list
	// or the list has the field after its items.
	APIVersion string
}

// Form describes the form of an input and any part of it that is known to be missing.
type Form struct {
	// Name is the layout of the entries, such as "JSON lines".
	Name string
	// Encodings lists the encodings that were unpacked, such as "gzip", the outermost first.
	Encodings []string
	// Part reports that the input has one page of a longer list. Remaining is the number of items on later pages, if known.
	Part      bool
	Remaining int64
}

// reader reads one input.
type reader struct {
	ctx      context.Context //nolint:containedctx // it lives for one call
	source   *source
	unpacked *bufio.Reader // source, unpacked
	take     func(Entry) error
	form     Form
	count    int64 // entries so far
}

// source stores the error of a reader, which is distinct from errors in the data.
type source struct {
	in  io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Read reads an input to its end and calls take with each entry, in order. It returns the first error of take or in, or an
// UnreadableError if the input contains nothing readable. A truncated end is reported as an entry with an error.
func Read(ctx context.Context, in io.Reader, take func(Entry) error) (Form, error) {
	r := &reader{ctx: ctx, source: &source{in: in}, take: take}
	err := r.unpack()
	if err == nil {
		err = r.read()
	}
	if r.source.err != nil {
		err = r.source.err
	}
	return r.form, err
}

func (r *reader) read() error {
	head, err := r.unpacked.Peek(peekBytes)
	if len(head) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return r.noteTruncated(err)
	}
	if r.form.Name, err = recognize(head); err != nil {
		return err
	}
	switch r.form.Name {
	case lines, prefixed:
		return r.lines()
	case documents:
		return r.documents(r.unpacked)
	}
	return r.yaml()
}

// noteTruncated notes that the rest of the input cannot be read.
func (r *reader) noteTruncated(err error) error {
	r.count++
	return r.take(Entry{Number: r.count, Err: fmt.Errorf("the rest is not read: %w", PlainError(err))})
}

// lines reads a JSON value from each line that is not empty; with a prefix, from the first brace on.
func (r *reader) lines() error {
	var line []byte
	for last := false; !last && r.ctx.Err() == nil; {
		var err error
		line, err = nextLine(r.unpacked, line)
		if last = err != nil; last && !errors.Is(err, io.EOF) {
			return r.noteTruncated(err)
		}
		r.count++
		text := bytes.TrimSpace(line)
		if r.form.Name == prefixed {
			text = afterPrefix(text)
		}
		if len(text) == 0 {
			continue
		}
		e := Entry{Number: r.count, Text: text}
		if len(line) > MaxLine {
			e = Entry{Number: r.count, Err: fmt.Errorf("the line is longer than %d bytes", MaxLine)}
		}
		if err := r.take(e); err != nil {
			return err
		}
	}
	return r.ctx.Err()
}

// nextLine reads a line into b. It truncates a line that is too long, but to more than MaxLine.
func nextLine(in *bufio.Reader, b []byte) ([]byte, error) {
	b = b[:0]
	for {
		part, err := in.ReadSlice('\n')
		if len(b) <= MaxLine {
			b = append(b, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b, err
		}
	}
}

// documents reads consecutive JSON values, with or without white space between them. After invalid JSON, the start of the next
// value is unknown, so the rest counts as one broken entry.
func (r *reader) documents(in io.Reader) error {
	d := jsontext.NewDecoder(in, Lenient())
	for r.ctx.Err() == nil {
		err := r.value(d)
		taking, taken := errors.AsType[takeError](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case taken:
			return taking.error
		case err != nil:
			return r.noteTruncated(err)
		}
	}
	return r.ctx.Err()
}

// takeError is an error that take returned.
type takeError struct{ error }

// value reads the next value: the elements of an array, the items of a list, or one entry.
func (r *reader) value(d *jsontext.Decoder) error {
	switch d.PeekKind() { //nolint:exhaustive // other kinds are entries, which the caller rejects
	case '[':
		return r.elements(d, func() error { return r.value(d) })
	case '{':
		return r.object(d)
	}
	return r.entry(d, "")
}

// entry reads a value as it is.
func (r *reader) entry(d *jsontext.Decoder, apiVersion string) error {
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	return r.add(Entry{Text: text, APIVersion: apiVersion})
}

func (r *reader) add(e Entry) error {
	r.count++
	e.Number = r.count
	err := r.take(e)
	if err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		return takeError{err}
	}
	return nil
}

// elements reads an array.
func (r *reader) elements(d *jsontext.Decoder, element func() error) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// isListField reports whether a field has the entries of a list. The field is "items" in Kubernetes, "events" in
// CloudWatch, and "records" in Azure.
func isListField(name string) bool { return name == "items" || name == "events" || name == "records" }

// object reads an object: a list if it has an array of entries, otherwise an entry.
func (r *reader) object(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	text, apiVersion, isList := []byte{'{'}, "", false
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		field := unquoted(name)
		if isListField(field) && d.PeekKind() == '[' {
			isList = true
			if err := r.elements(d, func() error { return r.entry(d, apiVersion) }); err != nil {
				return err
			}
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(text, name...), ':') // the next read invalidates name
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if field == "apiVersion" {
			apiVersion = unquoted(value)
		}
		text = append(text, value...)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	text = append(text, '}')
	if isList {
		r.notePart(text)
		return nil
	}
	return r.add(Entry{Text: text})
}

// notePart notes whether a list, given without its items, is one page of a longer list.
func (r *reader) notePart(list []byte) {
	var l struct {
		Metadata struct {
			Continue  string `json:"continue"`
			Remaining int64  `json:"remainingItemCount"`
		} `json:"metadata"`
	}
	if json.Unmarshal(list, &l, Lenient()) == nil && l.Metadata.Continue != "" {
		r.form.Part, r.form.Remaining = true, r.form.Remaining+l.Metadata.Remaining
	}
}

func unquoted(text []byte) string {
	var s string
	if json.Unmarshal(text, &s, Lenient()) != nil {
		return ""
	}
	return s
}

//nolint:gochecknoglobals // joined once, as that takes as long as decoding some fields
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// Lenient returns options that accept all JSON that the API server accepts.
func Lenient() json.Options { return lenient }
