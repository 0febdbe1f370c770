// Package text makes text from clients and files safe to show, and explains YAML syntax errors.
package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Sanitize returns s on one line, with a replacement for each character that could change how a terminal shows it: control
// characters, escape sequences and direction marks.
func Sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case strconv.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// SanitizeLines sanitizes each line of s, and keeps the line breaks.
func SanitizeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Sanitize(lines[i])
	}
	return strings.Join(lines, "\n")
}

// OneLine returns an error with the message of err on one line. It does not wrap err.
func OneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// JSON returns a writer that passes JSON in UTF-8 to w. Each Write must have whole values. It escapes, in strings, the
// characters that Sanitize replaces, so the meaning stays the same. No character above U+FFFF is a control character or a
// direction mark.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

// Write implements io.Writer.
func (j jsonWriter) Write(b []byte) (int, error) {
	hidden := func(r rune) bool { return r != '\n' && r <= 0xffff && !strconv.IsPrint(r) }
	if bytes.IndexFunc(b, hidden) < 0 {
		return j.w.Write(b)
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		if hidden(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	if _, err := out.WriteTo(j.w); err != nil {
		return 0, err
	}
	return len(b), nil
}
