package simulate

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads JSON at several times the speed of a decoder, without an
// allocation: what it returns are parts of the text. It does not look into what is
// skipped. Whatever it does not expect makes it fail, which says nothing about the
// text: a decoder has the last word then. Once it has failed, it returns zero
// values and does not move.
type scanner struct {
	text   string
	at     int
	failed bool
}

// peek is the byte that the next value begins with, or 0.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text) && !s.failed; s.at++ {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
		default:
			return s.text[s.at]
		}
	}
	return 0
}

// take takes the next byte if it is c.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.failed {
		return false
	}
	s.at++
	return true
}

func (s *scanner) must(c byte) {
	if !s.take(c) {
		s.failed = true
	}
}

// end fails unless nothing is left.
func (s *scanner) end() bool { return s.peek() == 0 && s.at == len(s.text) && !s.failed }

// object reads an object. member takes the value of each name.
func (s *scanner) object(member func(name string)) {
	s.must('{')
	for more := !s.take('}'); more && !s.failed; more = !s.take('}') {
		name := s.string()
		s.must(':')
		member(name)
		if s.peek() != '}' {
			s.must(',')
			if s.peek() == '}' {
				s.failed = true
			}
		}
	}
}

// string reads a string.
func (s *scanner) string() string {
	begin := s.quoted()
	if s.failed {
		return ""
	}
	text := s.text[begin+1 : s.at-1]
	plain := true
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	unquoted, err := jsontext.AppendUnquote(nil, s.text[begin:s.at])
	if err != nil {
		s.failed = true
	}
	return string(unquoted)
}
