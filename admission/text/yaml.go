package text

import (
	"regexp"
	"strconv"
	"strings"
)

// SyntaxProblem describes a syntax error in YAML or JSON.
type SyntaxProblem struct {
	// Line is the line of the error, from 1. It is 0 if the parser does not report one.
	Line int
	// Message explains the error to users, on one line.
	Message string
}

// YAML explains an error of a parser that derives from libyaml, such as sigs.k8s.io/yaml. An error that it does not know
// becomes "is not valid YAML", because the parser's own messages do not help users.
func YAML(err error) SyntaxProblem {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	problem := SyntaxProblem{Message: "is not valid YAML"}
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(message); m != nil {
		message = m[2]
		problem.Line, _ = strconv.Atoi(m[1]) // it has digits only
	} else if !hasNoLine(message) {
		problem.Line = 1 // the parser omits the first line
	}
	for _, known := range parserMessages() {
		if !strings.Contains(message, known.parser) {
			continue
		}
		problem.Message = known.explanation
		// Errors of the scanner count lines from 1, those of the parser from 0.
		if known.zeroBased && strings.HasPrefix(err.Error(), "yaml: line ") {
			problem.Line++
		}
		break
	}
	return problem
}

// hasNoLine reports whether a parser's message never has a line number. Unknown messages count as having none.
func hasNoLine(message string) bool {
	for _, known := range parserMessages() {
		if strings.Contains(message, known.parser) {
			return known.noLine
		}
	}
	return true
}

// parserMessage maps a part of a parser's message to an explanation for users.
type parserMessage struct {
	parser, explanation string
	zeroBased           bool // the parser counts its lines from 0
	noLine              bool // the parser never reports a line
}

// parserMessages returns the known messages. The first that matches applies.
func parserMessages() []parserMessage {
	return []parserMessage{
		{parser: "mapping values are not allowed", explanation: "no field can begin here: check the indentation, and quote a value that has a colon and a space in it"},
		{parser: "mapping keys are not allowed", explanation: "no field can begin here: check the indentation"},
		{parser: "block sequence entries are not allowed", explanation: "no list can begin here: put each item, with its dash, on a line of its own"},
		{parser: "did not find expected key", explanation: "a field with another indentation, or none, is expected here: check the indentation of this line and of those before it", zeroBased: true},
		{parser: "'-' indicator", explanation: "an item of the list is expected here: begin it with a dash, and check the indentation", zeroBased: true},
		{parser: "',' or ']'", explanation: "a comma or the ] of a list is missing before this", zeroBased: true},
		{parser: "',' or '}'", explanation: "a comma or the } of an object is missing before this", zeroBased: true},
		{parser: "expected node content", explanation: "a value is expected here", zeroBased: true},
		{parser: "<document start>", explanation: "nothing more is expected here: separate documents by a line with ---", zeroBased: true},
		{parser: "incompatible YAML document", explanation: "must be YAML 1.1", zeroBased: true},
		{parser: "undefined tag handle", explanation: "uses a tag that is not declared", zeroBased: true},
		{parser: "directive", explanation: "has a directive (%) that cannot be read"},
		{parser: "tab character", explanation: "indent with spaces: a tab is not allowed here"},
		{parser: "cannot start any token", explanation: "no value can begin with this character: quote a string that begins with @, ` or %, and indent with spaces, not with tabs"},
		{parser: "unexpected end of stream", explanation: "a quoted string is not closed"},
		{parser: "unexpected document indicator", explanation: "a quoted string is not closed before the next document"},
		{parser: "could not find expected ':'", explanation: "a colon is expected after the name of a field: check the indentation"},
		{parser: "unknown escape character", explanation: `a string in double quotes has an escape that YAML does not define: use single quotes, or \\ for a backslash`},
		{parser: "escape code", explanation: "a string in double quotes has an escape that is not a character"},
		{parser: "hexdecimal number", explanation: "a string in double quotes has an escape that is not a character"},
		{parser: "control characters are not allowed", explanation: "control characters are not allowed", noLine: true},
		{parser: "UTF-8", explanation: "must be UTF-8", noLine: true},
		{parser: "UTF-16", explanation: "must be UTF-8", noLine: true},
		{parser: "surrogate area", explanation: "must be UTF-8", noLine: true},
		{parser: "invalid Unicode character", explanation: "must be UTF-8", noLine: true},
		{parser: "max depth", explanation: "is nested too deeply", noLine: true},
		{parser: "unknown anchor", explanation: "an alias (*) names an anchor that does not exist: quote a string that begins with *", noLine: true},
		{parser: "value contains itself", explanation: "the value of an anchor (&) contains itself", noLine: true},
		{parser: "excessive aliasing", explanation: "its aliases (*) expand to too much", noLine: true},
		{parser: "map key", explanation: "the name of a field must be text: render a template first, and quote {{", noLine: true},
		{parser: "map merge", explanation: "<< takes an object, or a list of them", noLine: true},
		{parser: "base64", explanation: "a !!binary value must be base64", noLine: true},
		{parser: "cannot decode", explanation: "a value does not match its tag (!!)", noLine: true},
		{parser: "unsupported value", explanation: "a number is not finite", noLine: true},
		{parser: "already set in map", explanation: "a field is set twice", noLine: true},
	}
}
