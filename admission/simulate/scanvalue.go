package simulate

import "strings"

// quoted goes past a string and returns where it begins.
func (s *scanner) quoted() (begin int) {
	if s.peek() != '"' {
		s.failed = true
		return 0
	}
	begin = s.at
	for at := begin + 1; ; {
		quote := strings.IndexByte(s.text[at:], '"')
		if quote < 0 {
			s.failed = true
			return 0
		}
		at += quote + 1
		escapes := 0
		for s.text[at-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.at = at
			return begin
		}
	}
}

// value reads any value and returns its text.
func (s *scanner) value() raw {
	first := s.peek()
	begin := s.at
	switch first {
	case '"':
		s.quoted()
	case '{', '[':
		s.nested()
	default:
		for s.at < len(s.text) && strings.IndexByte(",:]} \t\r\n", s.text[s.at]) < 0 {
			s.at++
		}
		if s.at == begin {
			s.failed = true
		}
	}
	if s.failed {
		return ""
	}
	return raw(s.text[begin:s.at])
}

// nested goes past an object or an array.
func (s *scanner) nested() {
	for depth := 0; s.at < len(s.text) && !s.failed; {
		switch s.text[s.at] {
		case '"':
			s.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return
			}
		}
		s.at++
	}
	s.failed = true
}
