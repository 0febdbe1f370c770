package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/text/encoding/unicode"
)

// What files are.
const (
	// MaxFile is how many bytes a file may have.
	MaxFile = 16 << 20
	// StdinPath is the path of standard input, and Stdin is its name.
	StdinPath = "-"
	Stdin     = "standard input"
)

// DisplayName is that of the file at a path.
func DisplayName(path string) string {
	if path == StdinPath {
		return Stdin
	}
	return path
}

// Load reads the file at a path, or in for StdinPath. An error is a *FieldError.
func Load(path string, in io.Reader) ([]byte, error) {
	content, err := load(path, in)
	if err != nil {
		return nil, ReadError(path, err)
	}
	return content, nil
}

func load(path string, in io.Reader) ([]byte, error) {
	if path != StdinPath {
		opened, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }() // what was read is known already
		in = opened
	}
	if in == nil {
		return nil, errors.New("cannot be read here")
	}
	content, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	if err == nil && len(content) > MaxFile {
		err = fmt.Errorf("must have at most %d bytes", MaxFile)
	}
	return content, err
}

// ReadError says that there is nothing to be read at a path, and why.
func ReadError(path string, err error) *FieldError {
	m := &FieldError{File: DisplayName(path), Reason: err.Error()}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		m.Reason = "cannot be read: " + at.Err.Error()
	}
	return m
}

// ParseOne reads a file that has one document, which is an object. Err has the fields that are there twice.
func ParseOne(file string, content []byte) (*Document, error) {
	all := Parse(file, content)
	switch {
	case len(all) == 0 || len(all) == 1 && all[0].Value == nil && all[0].Err() == nil:
		return nil, ReadError(file, errors.New("is empty: it must have an object in YAML or JSON"))
	case len(all) > 1:
		return nil, &FieldError{File: file, Position: all[1].Start, Reason: "must have one document, and another one begins here"}
	}
	d := all[0]
	if _, ok := d.Value.(map[string]any); ok {
		return d, nil
	}
	if d.Value != nil {
		d.AddError("", "must be an object, not %s", Format(d.Value))
	}
	return nil, d.Err()
}

// IsUTF16 reports whether a text is marked as UTF-16.
func IsUTF16(content []byte) bool {
	return bytes.HasPrefix(content, []byte{0xff, 0xfe}) || bytes.HasPrefix(content, []byte{0xfe, 0xff})
}

// toUTF8 is a text in UTF-8, without a mark of the byte order. What is no text stays, and is found later.
func toUTF8(content []byte) []byte {
	if IsUTF16(content) {
		if decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(content); err == nil {
			return decoded
		}
	}
	return bytes.TrimPrefix(content, []byte("\ufeff"))
}
