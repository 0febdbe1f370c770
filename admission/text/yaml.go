package text

import (
	"regexp"
	"strconv"
	"strings"
)

// Syntax is what is wrong with a text in YAML or JSON.
type Syntax struct {
	// Line is where, from 1; 0 if the parser does not say.
	Line int
	// Why says it for people, on one line.
	Why string
}

// YAML says in plain words what a parser of the family of libyaml, such as sigs.k8s.io/yaml, finds wrong. What it has no
// words for is "is not valid YAML": a parser's own words are not for people.
func YAML(err error) Syntax {
	says := strings.TrimPrefix(err.Error(), "yaml: ")
	found := Syntax{Why: "is not valid YAML"}
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(says); m != nil {
		says = m[2]
		found.Line, _ = strconv.Atoi(m[1]) // of digits
	} else if !anywhere(says) {
		found.Line = 1 // the parser leaves it out then
	}
	for _, known := range plain() {
		if !strings.Contains(says, known.parser) {
			continue
		}
		found.Why = known.why
		// The parser counts from 0 what is no fault of a character, and from 1 what is.
		if known.counted && strings.HasPrefix(err.Error(), "yaml: line ") {
			found.Line++
		}
		break
	}
	return found
}

// anywhere reports whether a parser says something without having a line of it.
func anywhere(says string) bool {
	for _, known := range plain() {
		if strings.Contains(says, known.parser) {
			return known.anywhere
		}
	}
	return true
}

// sentence is what to say where a parser says something.
type sentence struct {
	parser, why string
	counted     bool // lines of it are counted from 0
	anywhere    bool // it never has a line
}

// plain are all sentences.
func plain() []sentence {
	return []sentence{
		{parser: "mapping values are not allowed", why: "no field can begin here: check the indentation, and quote a value that has a colon and a space in it"},
		{parser: "mapping keys are not allowed", why: "no field can begin here: check the indentation"},
		{parser: "block sequence entries are not allowed", why: "no list can begin here: put each item, with its dash, on a line of its own"},
		{parser: "did not find expected key", why: "a field of another indentation, or of none, is expected here: check the indentation of this line and of those before it", counted: true},
		{parser: "'-' indicator", why: "an item of the list is expected here: begin it with a dash, and check the indentation", counted: true},
		{parser: "',' or ']'", why: "a comma or the ] of a list is missing before this", counted: true},
		{parser: "',' or '}'", why: "a comma or the } of an object is missing before this", counted: true},
		{parser: "expected node content", why: "a value is expected here", counted: true},
		{parser: "<document start>", why: "nothing more is expected here: separate documents by a line with ---", counted: true},
		{parser: "incompatible YAML document", why: "must be YAML 1.1", counted: true},
		{parser: "undefined tag handle", why: "uses a tag that is not declared", counted: true},
		{parser: "directive", why: "has a directive (%) that cannot be read"},
		{parser: "tab character", why: "indent with spaces: a tab is not allowed here"},
		{parser: "cannot start any token", why: "no value begins with this character: quote a text that begins with @, ` or %, and indent with spaces, not with tabs"},
		{parser: "unexpected end of stream", why: "a text in quotes does not end"},
		{parser: "unexpected document indicator", why: "a text in quotes does not end before the next document"},
		{parser: "could not find expected ':'", why: "a colon is expected after the name of a field: check the indentation"},
		{parser: "unknown escape character", why: `a text in double quotes has an escape that YAML does not have: use single quotes, or \\ for a backslash`},
		{parser: "escape code", why: "a text in double quotes has an escape that is no character"},
		{parser: "hexdecimal number", why: "a text in double quotes has an escape that is no character"},
		{parser: "control characters are not allowed", why: "control characters are not allowed", anywhere: true},
		{parser: "UTF-8", why: "must be UTF-8", anywhere: true},
		{parser: "UTF-16", why: "must be UTF-8", anywhere: true},
		{parser: "surrogate area", why: "must be UTF-8", anywhere: true},
		{parser: "invalid Unicode character", why: "must be UTF-8", anywhere: true},
		{parser: "max depth", why: "is nested too deeply", anywhere: true},
		{parser: "unknown anchor", why: "an alias (*) names an anchor that is not there: quote a text that begins with *", anywhere: true},
		{parser: "value contains itself", why: "the value of an anchor (&) contains itself", anywhere: true},
		{parser: "excessive aliasing", why: "its aliases (*) stand for too much", anywhere: true},
		{parser: "map key", why: "the name of a field must be text: render a template first, and quote {{", anywhere: true},
		{parser: "map merge", why: "<< takes an object, or a list of them", anywhere: true},
		{parser: "base64", why: "a !!binary value must be base64", anywhere: true},
		{parser: "cannot decode", why: "a value is not what its tag (!!) says", anywhere: true},
		{parser: "unsupported value", why: "a number is not finite", anywhere: true},
		{parser: "already set in map", why: "a field is there twice", anywhere: true},
	}
}
