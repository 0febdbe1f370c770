package document

import (
	"bytes"
	"unicode/utf8"
)

// chunk is the text of one document.
type chunk struct {
	// line is the line of the file in which the text begins, from 1.
	line int
	text []byte
}

// split splits a file into documents, at lines that are --- or ... or begin with one of them and a space. Text after --- on
// the same line belongs to the next document. Directives and comments alone do not make a document.
func split(content []byte) []chunk {
	rest := content
	var all []chunk
	current, blank, number := chunk{line: 1}, true, 0 // blank is isBlank(current.text)
	end := func(next int) {
		if !blank {
			all = append(all, current)
			current, blank = chunk{line: next}, true
		}
	}
	add := func(line []byte) {
		current.text = append(current.text, line...)
		blank = blank && isBlank(line)
	}
	for len(rest) > 0 {
		number++
		line := rest[:lineLength(rest)]
		rest = rest[len(line):]
		switch {
		case isSeparator(line, "---"):
			end(number)
			// Spaces keep the columns right. Text before the first document, such as a directive, stays in front of it.
			current.text = append(current.text, "   "...)
			add(line[3:])
		case isSeparator(line, "..."):
			if end(number + 1); current.line <= number { // there is no document to end
				add(line[3:])
			}
		case (bytes.HasPrefix(line, []byte("%YAML ")) || bytes.HasPrefix(line, []byte("%TAG "))) && blank:
			current.text = append(current.text, '#') // the parser would require a --- after it
			current.text = append(current.text, line...)
		default:
			add(line)
		}
	}
	end(number)
	return all
}

// lineLength returns the length of the first line including its end: LF, CR LF or CR.
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

// isSeparator reports whether a line separates documents.
func isSeparator(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// isBlank reports whether a text has only comments and white space.
func isBlank(text []byte) bool {
	for len(text) > 0 {
		line := text[:lineLength(text)]
		text = text[len(line):]
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// invalidLine returns the line, from 1, of the first byte that YAML does not allow, or 0.
func invalidLine(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f || r > 0x7f && r < 0xa0 && r != 0x85 {
			return 1 + countLines(text[:i])
		}
		i += size
	}
	return 0
}

// countLines counts the line ends in a text.
func countLines(text []byte) (n int) {
	for len(text) > 0 {
		length := lineLength(text)
		if bytes.IndexByte([]byte("\r\n"), text[length-1]) >= 0 {
			n++
		}
		text = text[length:]
	}
	return n
}
