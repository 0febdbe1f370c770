package text

import (
	"regexp"
	"strconv"
	"strings"
)

// SyntaxProblem is what is wrong with a text in YAML or JSON.
type SyntaxProblem struct {
	// Line is where, from 1; 0 if the parser does not say.
	Line int
	// Message says it for people, on one line.
	Message string
}

// YAML says in plain words what a parser of the family of libyaml, such as sigs.k8s.io/yaml, finds wrong. What it has no
// words for is "is not valid YAML": a parser's own words are not for people.
func YAML(err error) SyntaxProblem {
	says := strings.TrimPrefix(err.Error(), "yaml: ")
	found := SyntaxProblem{Message: "is not valid YAML"}
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(says); m != nil {
		says = m[2]
		found.Line, _ = strconv.Atoi(m[1]) // of digits
	} else if !hasNoLine(says) {
		found.Line = 1 // the parser leaves it out then
	}
	for _, known := range parserMessages() {
		if !strings.Contains(says, known.parser) {
			continue
		}
		found.Message = known.explanation
		// The parser counts from 0 what is no fault of a character, and from 1 what is.
		if known.zeroBased && strings.HasPrefix(err.Error(), "yaml: line ") {
			found.Line++
		}
		break
	}
	return found
}

// hasNoLine reports whether a parser says something without having a line of it.
func hasNoLine(says string) bool {
	for _, known := range parserMessages() {
		if strings.Contains(says, known.parser) {
			return known.noLine
		}
	}
	return true
}

// parserMessage is what to say where a parser says something.
type parserMessage struct {
	parser, explanation string
	zeroBased           bool // lines of it are counted from 0
	noLine              bool // it never has a line
}

// parserMessages are all sentences.
func parserMessages() []parserMessage {
	return []parserMessage{
		{parser: "mapping values are not allowed", explanation: "no field can begin here: check the indentation, and quote a value that has a colon and a space in it"},
		{parser: "mapping keys are not allowed", explanation: "no field can begin here: check the indentation"},
		{parser: "block sequence entries are not allowed", explanation: "no list can begin here: put each item, with its dash, on a line of its own"},
		{parser: "did not find expected key", explanation: "a field of another indentation, or of none, is expected here: check the indentation of this line and of those before it", zeroBased: true},
		{parser: "'-' indicator", explanation: "an item of the list is expected here: begin it with a dash, and check the indentation", zeroBased: true},
		{parser: "',' or ']'", explanation: "a comma or the ] of a list is missing before this", zeroBased: true},
		{parser: "',' or '}'", explanation: "a comma or the } of an object is missing before this", zeroBased: true},
		{parser: "expected node content", explanation: "a value is expected here", zeroBased: true},
		{parser: "<document start>", explanation: "nothing more is expected here: separate documents by a line with ---", zeroBased: true},
		{parser: "incompatible YAML document", explanation: "must be YAML 1.1", zeroBased: true},
		{parser: "undefined tag handle", explanation: "uses a tag that is not declared", zeroBased: true},
		{parser: "directive", explanation: "has a directive (%) that cannot be read"},
		{parser: "tab character", explanation: "indent with spaces: a tab is not allowed here"},
		{parser: "cannot start any token", explanation: "no value begins with this character: quote a text that begins with @, ` or %, and indent with spaces, not with tabs"},
		{parser: "unexpected end of stream", explanation: "a text in quotes does not end"},
		{parser: "unexpected document indicator", explanation: "a text in quotes does not end before the next document"},
		{parser: "could not find expected ':'", explanation: "a colon is expected after the name of a field: check the indentation"},
		{parser: "unknown escape character", explanation: `a text in double quotes has an escape that YAML does not have: use single quotes, or \\ for a backslash`},
		{parser: "escape code", explanation: "a text in double quotes has an escape that is no character"},
		{parser: "hexdecimal number", explanation: "a text in double quotes has an escape that is no character"},
		{parser: "control characters are not allowed", explanation: "control characters are not allowed", noLine: true},
		{parser: "UTF-8", explanation: "must be UTF-8", noLine: true},
		{parser: "UTF-16", explanation: "must be UTF-8", noLine: true},
		{parser: "surrogate area", explanation: "must be UTF-8", noLine: true},
		{parser: "invalid Unicode character", explanation: "must be UTF-8", noLine: true},
		{parser: "max depth", explanation: "is nested too deeply", noLine: true},
		{parser: "unknown anchor", explanation: "an alias (*) names an anchor that is not there: quote a text that begins with *", noLine: true},
		{parser: "value contains itself", explanation: "the value of an anchor (&) contains itself", noLine: true},
		{parser: "excessive aliasing", explanation: "its aliases (*) stand for too much", noLine: true},
		{parser: "map key", explanation: "the name of a field must be text: render a template first, and quote {{", noLine: true},
		{parser: "map merge", explanation: "<< takes an object, or a list of them", noLine: true},
		{parser: "base64", explanation: "a !!binary value must be base64", noLine: true},
		{parser: "cannot decode", explanation: "a value is not what its tag (!!) says", noLine: true},
		{parser: "unsupported value", explanation: "a number is not finite", noLine: true},
		{parser: "already set in map", explanation: "a field is there twice", noLine: true},
	}
}
