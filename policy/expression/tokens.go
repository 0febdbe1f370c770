package expression

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// tokenKind is the kind of a token.
type tokenKind int

const (
	word tokenKind = iota
	number
	quoted
	sign
	callBracket // a bracket of a call or an index
)

// token is a lexical part of an expression.
type token struct {
	kind tokenKind
	text string
	pos  int // position of its first character, from 0
}

// syntaxError tells why an expression does not parse, and the position of the character.
type syntaxError struct {
	pos    int
	reason string
}

// tokens splits an expression, up to its end or the first error.
func tokens(text string) ([]token, *syntaxError) {
	s := scanner{text: []rune(text)}
	var all []token
	for s.skip(); s.pos < len(s.text); s.skip() {
		t, wrong := s.next()
		if wrong != nil {
			return all, wrong
		}
		all = append(all, t)
	}
	return all, nil
}

type scanner struct {
	text []rune
	pos  int
}

// skip skips spaces and comments.
func (s *scanner) skip() {
	for s.pos < len(s.text) {
		switch {
		case unicode.IsSpace(s.text[s.pos]):
			s.pos++
		case s.has("//"):
			for s.pos < len(s.text) && s.text[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

// has reports whether the text follows.
func (s *scanner) has(text string) bool {
	end := s.pos + len(text)
	return end <= len(s.text) && string(s.text[s.pos:end]) == text
}

func (s *scanner) next() (token, *syntaxError) {
	start, first := s.pos, s.text[s.pos]
	made := func(k tokenKind) token { return token{k, string(s.text[start:s.pos]), start} }
	switch {
	case isQuote(first):
		wrong := s.quote(true)
		return made(quoted), wrong
	case isLetter(first):
		s.while(isWord)
		prefix := strings.ToLower(string(s.text[start:s.pos]))
		if (prefix == "r" || prefix == "b" || prefix == "br") && s.pos < len(s.text) && isQuote(s.text[s.pos]) {
			wrong := s.quote(!strings.Contains(prefix, "r"))
			return made(quoted), wrong
		}
		return made(word), nil
	case isDigit(first) || first == '.' && s.pos+1 < len(s.text) && isDigit(s.text[s.pos+1]):
		return s.number()
	case first == '`': // the quoted name of a field
		if end := slices.Index(s.text[s.pos+1:], '`'); end > 0 {
			s.pos += end + 2
			return made(word), nil
		}
	}
	for _, one := range signs() {
		if !s.has(one.text) {
			continue
		}
		if s.pos += len(one.text); one.hint != "" {
			return token{}, &syntaxError{start, fmt.Sprintf("%q is no operator: %s", one.text, one.hint)}
		}
		return made(sign), nil
	}
	why := fmt.Sprintf("%q means nothing in an expression", string(first))
	switch {
	case strings.ContainsRune("“”„‘’‚«»´`", first):
		why = fmt.Sprintf(`%q is no quotation mark of an expression: a text has ' or " around it`, string(first))
	case first == ';':
		why = `";" ends nothing: a condition is one expression`
	}
	return token{}, &syntaxError{start, why}
}

// number reads a number, and any characters that follow it without a space.
func (s *scanner) number() (token, *syntaxError) {
	start := s.pos
	s.while(isWord)
	for s.pos+1 < len(s.text) && s.text[s.pos] == '.' && isDigit(s.text[s.pos+1]) {
		s.pos++
		s.while(isWord)
	}
	if e := s.text[s.pos-1]; (e == 'e' || e == 'E') && s.pos < len(s.text) && (s.text[s.pos] == '-' || s.text[s.pos] == '+') {
		s.pos++
		s.while(isDigit)
	}
	text := string(s.text[start:s.pos])
	digits := strings.TrimLeft(text, "0123456789.")
	switch digits {
	case "ns", "us", "µs", "ms", "s", "m", "h":
		return token{}, &syntaxError{start, fmt.Sprintf("%q is no number: a duration is written duration('%s')", text, text)}
	case "d", "w":
		return token{}, &syntaxError{start, fmt.Sprintf("%q is no number: a duration is written in hours, such as duration('24h')", text)}
	case "k", "K", "M", "G", "Ki", "Mi", "Gi":
		return token{}, &syntaxError{start, fmt.Sprintf("%q is no number: write all of its digits", text)}
	}
	if !regexp.MustCompile(`^(?:0x[0-9a-fA-F]+u?|[0-9]+[uU]?|[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$`).MatchString(text) {
		return token{}, &syntaxError{start, fmt.Sprintf("%q is no number", text)}
	}
	return token{number, text, start}, nil
}

// quote reads a text in quotes, in which \ begins an escape or does not.
func (s *scanner) quote(escapes bool) *syntaxError {
	start, mark := s.pos, string(s.text[s.pos])
	if s.has(strings.Repeat(mark, 3)) {
		mark = strings.Repeat(mark, 3)
	}
	for s.pos += len(mark); s.pos < len(s.text); s.pos++ {
		switch r := s.text[s.pos]; {
		case s.has(mark):
			s.pos += len(mark)
			return nil
		case len(mark) == 1 && (r == '\n' || r == '\r'):
			return &syntaxError{start, "the text in quotes that begins here does not end in its line"}
		case r == '\\' && escapes:
			if wrong := s.escape(); wrong != nil {
				return wrong
			}
		}
	}
	return &syntaxError{start, "the text in quotes that begins here does not end"}
}

// escape moves to the last character of a one-letter escape, or to the character after the \ of another one.
func (s *scanner) escape() *syntaxError {
	m := regexp.MustCompile("^\\\\(?:[abfnrtv\"'\\\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})")
	s.pos++
	if rest := string(s.text[s.pos-1 : min(len(s.text), s.pos+9)]); s.pos < len(s.text) && !m.MatchString(rest) {
		escape := string(s.text[s.pos-1 : s.pos+1])
		return &syntaxError{s.pos - 1, fmt.Sprintf(`"%s" begins no escape here: write \%s for a backslash, or put r before the quotes`, escape, escape)}
	}
	return nil
}

func (s *scanner) while(is func(rune) bool) {
	for s.pos < len(s.text) && is(s.text[s.pos]) {
		s.pos++
	}
}

func isQuote(r rune) bool  { return r == '\'' || r == '"' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
func isLetter(r rune) bool { return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func isWord(r rune) bool   { return isLetter(r) || isDigit(r) || r == 'µ' }

// operator is a sign, with a hint if it is wrong in CEL.
type operator struct{ text, hint string }

// signs returns operators, brackets and common mistakes for them, the longest first.
func signs() []operator {
	all := []operator{
		{"===", "== compares"}, {"!==", "!= compares"},
		{"==", ""}, {"!=", ""}, {"<=", ""}, {">=", ""}, {"&&", ""}, {"||", ""},
		{"=~", "matches() takes a regular expression, as in event.reason.matches('^Back')"},
		{"!~", "matches() takes a regular expression, as in !event.reason.matches('^Back')"},
		{"=>", ">= compares"}, {"=<", "<= compares"}, {"<>", "!= compares"}, {":=", "== compares"},
		{"=", "== compares"}, {"&", "&& means and"}, {"|", "|| means or"}, {"^", "there are none for bits"}, {"~", "there are none for bits"},
	}
	for _, one := range "<>!+-*/%?:.,()[]{}" {
		all = append(all, operator{text: string(one)})
	}
	return all
}
