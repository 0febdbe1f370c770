// Package text makes text that others wrote safe to show.
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

// Sanitize is s on one line, without what could change what a terminal shows or the order in which it is read: control
// characters, escape sequences and marks of the direction.
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

// SanitizeLines is Sanitize for each line of s.
func SanitizeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Sanitize(lines[i])
	}
	return strings.Join(lines, "\n")
}

// OneLine is err, which may have several lines, in one.
func OneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// JSON returns a writer to w of JSON in UTF-8, each Write of whole values. It escapes in their texts what Sanitize
// replaces, so that they mean the same. No character above U+FFFF is a control or a mark of the direction.
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
