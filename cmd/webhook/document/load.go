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

const (
	// MaxFile is the maximum size of a file in bytes.
	MaxFile = 16 << 20
	// StdinPath is the path of standard input.
	StdinPath = "-"
	// Stdin is the name of standard input in messages.
	Stdin = "standard input"
)

// DisplayName returns the name of a file for messages.
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
		defer func() { _ = opened.Close() }() // only read from
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

// ReadError wraps an error of reading the file at path.
func ReadError(path string, err error) *FieldError {
	fieldErr := &FieldError{File: DisplayName(path), Reason: err.Error()}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		fieldErr.Reason = "cannot be read: " + pathErr.Err.Error()
	}
	return fieldErr
}

// ParseOne parses a file that must have one document with an object. Err of the document reports duplicate fields.
func ParseOne(file string, content []byte) (*Document, error) {
	all := Parse(file, content)
	switch {
	case len(all) == 0 || len(all) == 1 && all[0].Value == nil && all[0].Err() == nil:
		return nil, ReadError(file, errors.New("is empty: must have an object in YAML or JSON"))
	case len(all) > 1:
		return nil, &FieldError{File: file, Position: all[1].Start, Reason: "must have one document, but a second one begins here"}
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

// toUTF8 converts UTF-16 to UTF-8 and removes a byte order mark. Invalid text is kept and reported later.
func toUTF8(content []byte) []byte {
	if IsUTF16(content) {
		if decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(content); err == nil {
			return decoded
		}
	}
	return bytes.TrimPrefix(content, []byte("\ufeff"))
}
