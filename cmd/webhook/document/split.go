package document

import (
	"bytes"
	"unicode/utf8"
)

// Chunk is the text of one document of a file.
type Chunk struct {
	// Line is that of the file in which Text begins, from 1.
	Line int
	Text []byte
}

// Split splits a file into documents, at lines that begin with --- or ... and a space, or are nothing else. What is on
// the same line behind --- belongs to the next document. Directives and comments alone are no document. The mark of the
// byte order of UTF-8 is left out.
func Split(content []byte) []Chunk {
	rest := bytes.TrimPrefix(content, []byte("\ufeff"))
	var all []Chunk
	current, number := Chunk{Line: 1}, 0
	end := func(next int) {
		if !blank(current.Text) {
			all = append(all, current)
			current = Chunk{Line: next}
		}
	}
	for len(rest) > 0 {
		number++
		line := rest[:lineLength(rest)]
		rest = rest[len(line):]
		switch {
		case isMark(line, "---"):
			end(number)
			// Spaces keep columns right. What is before a first document, such as a directive, stays in front of it.
			current.Text = append(current.Text, "   "...)
			current.Text = append(current.Text, line[3:]...)
		case isMark(line, "..."):
			if end(number + 1); current.Line <= number { // it ends nothing
				current.Text = append(current.Text, line[3:]...)
			}
		case (bytes.HasPrefix(line, []byte("%YAML ")) || bytes.HasPrefix(line, []byte("%TAG "))) && blank(current.Text):
			current.Text = append(current.Text, '#') // the parser would want a --- after it
			current.Text = append(current.Text, line...)
		default:
			current.Text = append(current.Text, line...)
		}
	}
	end(number)
	return all
}

// lineLength is how long the first line is, with its end: LF, CR LF or CR.
func lineLength(text []byte) int {
	i := bytes.IndexAny(text, "\r\n")
	switch {
	case i < 0:
		return len(text)
	case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
		return i + 2
	}
	return i + 1
}

// isMark reports whether a line separates documents.
func isMark(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// blank reports whether there is nothing in a text but comments.
func blank(text []byte) bool {
	for len(text) > 0 {
		line := text[:lineLength(text)]
		text = text[len(line):]
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// unreadable is the line, from 1, of the first byte that is no character which YAML allows, or 0.
func unreadable(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f || r > 0x7f && r < 0xa0 && r != 0x85 {
			return 1 + lineEnds(text[:i])
		}
		i += size
	}
	return 0
}

// lineEnds counts the ends of lines in a text.
func lineEnds(text []byte) (n int) {
	for len(text) > 0 {
		length := lineLength(text)
		if bytes.IndexByte([]byte("\r\n"), text[length-1]) >= 0 {
			n++
		}
		text = text[length:]
	}
	return n
}
