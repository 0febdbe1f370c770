package expression

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

func newEvents(tb testing.TB) *Compiler {
	tb.Helper()
	type part struct{}
	none := func(*part) string { return "" }
	c, err := NewCompiler(map[string]string{"event": "test.Event", "request": "test.Request"}, map[string]Object{
		"test.Event": {
			"metadata":       ObjectField("test.Metadata", func(p *part) *part { return p }),
			"involvedObject": ObjectField("test.Reference", func(p *part) *part { return p }),
			"reason":         Text(none),
			"message":        Text(none),
			"count":          Int(func(*part) int64 { return 0 }),
			"eventTime":      Time(func(*part) time.Time { return time.Time{} }),
		},
		"test.Metadata":  {"name": Text(none), "labels": TextMap(func(*part) map[string]string { return nil }, nil)},
		"test.Reference": {"kind": Text(none), "name": Text(none), "fieldPath": Text(none)},
		"test.Request": {
			"userInfo": ObjectField("test.UserInfo", func(p *part) *part { return p }),
			"dryRun":   Bool(func(*part) (bool, error) { return false, nil }),
		},
		"test.UserInfo": {"username": Text(none), "groups": TextList(func(*part) []string { return nil })},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestErrorMessages holds what is said of each expression, to its end or to the list of functions.
func TestErrorMessages(t *testing.T) {
	t.Parallel()
	c := newEvents(t)
	for _, test := range []struct{ expression, says string }{
		{"", "column 1: is empty: must be an expression, such as event.reason == 'BackOff'"},
		{"  // only a comment", "column 1: is empty: must be an expression, such as event.reason == 'BackOff'"},
		{"event.reason = 'a'", `column 14: "=" is no operator: == compares`},
		{"event.reason === 'a'", `column 14: "===" is no operator: == compares`},
		{"event.reason =~ 'a'", `column 14: "=~" is no operator: matches() takes a regular expression, as in event.reason.matches('^Back')`},
		{"event.reason <> 'a'", `column 14: "<>" is no operator: != compares`},
		{"event.count => 3", `column 13: "=>" is no operator: >= compares`},
		{"event.reason == 'a' & event.count > 1", `column 21: "&" is no operator: && means and`},
		{"event.reason == 'a' | event.count > 1", `column 21: "|" is no operator: || means or`},
		{"event.reason == 'a' and event.count > 1", `column 21: "and" is no operator: && means and`},
		{"event.reason == 'a' OR event.count > 1", `column 21: "OR" is no operator: || means or`},
		{"not event.reason == 'a'", `column 1: "not" is no operator: ! means not, as in !(a in b)`},
		{"event.reason not in ['a']", `column 14: "not" is no operator: ! means not, as in !(a in b)`},
		{"event.reason is 'a'", `column 14: "is" is no operator: == compares`},
		{"event.message contains 'a'", `column 15: "contains" is no operator: it is called, as in event.message.contains('timeout')`},
		{"event.message startswith 'a'", `column 15: "startswith" is no operator: it is called, as in event.message.startsWith('timeout')`},
		{"if event.count > 1 then true else false", `column 1: "if" is no operator: a ? b : c chooses`},
		{"event.reason ==", `column 16: a value is expected after "=="`},
		{"event.reason == 'a' &&", `column 23: a value is expected after "&&"`},
		{"&& event.reason == 'a'", `column 1: a value is expected at the beginning, not "&&"`},
		{"event.reason == == 'a'", `column 17: a value is expected after "==", not "=="`},
		{"event.reason 'a'", `column 14: an operator, such as == or &&, is expected before "'a'"`},
		{"event.reason == 'a' 'b'", `column 21: an operator, such as == or &&, is expected before "'b'"`},
		{"event.reason == 'a", "column 17: the text in quotes that begins here does not end"},
		{`event.reason == "a'`, "column 17: the text in quotes that begins here does not end"},
		{"event.reason == “a”", `column 17: "“" is no quotation mark of an expression: a text has ' or " around it`},
		{"event.reason == 'a';", `column 20: ";" ends nothing: a condition is one expression`},
		{`event.message.matches('\d+')`, `column 24: "\d" begins no escape here: write \\d for a backslash, or put r before the quotes`},
		{"event.message.matches('(')", `column 23: "(" is no regular expression: missing closing )`},
		{"(event.count > 1", "column 1: the ( that stands here is not closed"},
		{"event.count > 1)", `column 16: no ( is open for this ")"`},
		{"event.reason in ['a', 'b'", "column 17: the [ that stands here is not closed"},
		{"event.reason in ['a', 'b')", `column 26: ")" does not close the [ that is open`},
		{"event.reason in 'a', 'b'", `column 20: "," separates values in a list or a call only: && means and, || means or`},
		{"event.reason in ['a' 'b']", `column 22: an operator, such as == or &&, is expected before "'b'"`},
		{"event.reason in [, 'a']", `column 18: a value is expected after "[", not ","`},
		{"event.count > 1 ? true", "column 17: the ? that stands here has no : after it, as in a ? b : c"},
		{"event.count > 1 : false", `column 17: ":" has no ? before it, as in a ? b : c`},
		{"event. == 'a'", `column 8: the name of a field is expected after ".", not "=="`},
		{"event.", `column 7: the name of a field is expected after "."`},
		{"event..reason == 'a'", `column 7: the name of a field is expected after ".", not "."`},
		{"event.'reason' == 'a'", `column 7: the name of a field is expected after ".", not "'reason'"`},
		{"event.count > 5m", `column 15: "5m" is no number: a duration is written duration('5m')`},
		{"event.count > 10k", `column 15: "10k" is no number: write all of its digits`},
		{"event.eventTime > 7d", `column 19: "7d" is no number: a duration is written in hours, such as duration('24h')`},
		{"event.count > 1.2.3", `column 15: "1.2.3" is no number`},
		{"event.count > 99999999999999999999", "column 15: a whole number must be from -9223372036854775808 to 9223372036854775807"},
		{"$event.count > 1", `column 1: "$" means nothing in an expression`},
		{"event.count ^ 2 > 1", `column 13: "^" is no operator: there are none for bits`},
		{"event.reason ! 'a'", `column 14: "!" stands between two values: != compares, and ! before a value means not`},
		{"event.message.contains('a'", "column 23: the ( that stands here is not closed"},
		{"event.message.contains()", "column 15: contains is called as text.contains(text), not as text.contains()"},
		{"event.message.contains(1)", "column 15: contains is called as text.contains(text), not as text.contains(number)"},
		{"event.message.contain('a')", `column 15: there is no function "contain"; did you mean contains?`},
		{"event.message.foo('a')", `column 15: there is no function "foo": there are macros and `},
		{"contains(event.message, 'a')", "column 1: contains is called as text.contains(text), not as contains(text, text)"},
		{"foo(event.message)", `column 1: there is no function "foo": there are macros and `},
		{"event.reasn == 'a'", `column 7: "reasn" is no field of event; did you mean reason?`},
		{"event.Reason == 'a'", `column 7: "Reason" is no field of event; did you mean reason?`},
		{"event.user == 'a'", `column 7: "user" is no field of event: its fields are count, eventTime, involvedObject, message, metadata and reason`},
		{"event.involvedObject.nme == 'a'", `column 22: "nme" is no field of event.involvedObject: its fields are fieldPath, kind and name`},
		{"event.involvedObject.field == 'a'", `column 22: "field" is no field of event.involvedObject: its fields are fieldPath, kind and name`},
		{"object.reason == 'a'", `column 1: "object" is not known: names are event and request, and a text needs quotes`},
		{"evnt.reason == 'a'", `column 1: "evnt" is not known; did you mean event?`},
		{"reason == 'a'", `column 1: "reason" is not known; did you mean event.reason?`},
		{"event.reason == BackOff", `column 17: "BackOff" is not known: names are event and request, and a text needs quotes`},
		{"event.reason == True", `column 17: "True" is not known; did you mean true?`},
		{"True", `column 1: "True" is not known; did you mean true?`},
		{"event.count == '1'", "column 13: == compares values of one type, not a whole number and a text"},
		{"event.reason > 1", "column 14: > compares numbers, texts, times or durations with each other, not a text and a whole number"},
		{"event.reason == 'a' && event.count", "column 30: must be true or false, and is a whole number"},
		{"event.reason == 'a' && event.reason", "column 30: must be true or false, and is a text"},
		{"!event.reason", "column 1: ! takes true or false, not a text"},
		{"-event.reason == 'a'", "column 1: - takes a number, not a text"},
		{"event.count + 'a' == 'b'", "column 13: + adds numbers of one type, texts, or durations, not a whole number and a text"},
		{"event.eventTime > '2026-01-01T00:00:00Z'", "column 17: > compares numbers, texts, times or durations with each other, not a time and a text"},
		{"event.eventTime > timestamp('yesterday')", `column 29: "yesterday" is no time: a time is written timestamp('2026-01-01T12:00:00Z')`},
		{"event.eventTime - event.eventTime > duration('1 day')", `column 46: "1 day" is no duration: a duration is written duration('1h30m')`},
		{"'a' in event.message", "column 5: in looks for a value in a list: contains() looks for a text in a text, as in event.message.contains('timeout')"},
		{"event.message in 'a'", "column 15: in looks for a value in a list: contains() looks for a text in a text, as in event.message.contains('timeout')"},
		{"'a' in event.count", "column 5: in looks for a value in a list or for a name in a map, not a text and a whole number"},
		{"event.metadata.labels[1] == 'a'", "column 22: [ ] takes a list and a whole number, or a map and a name, not a map and a whole number"},
		{"event.reason[0] == 'a'", "column 13: [ ] takes a list and a whole number, or a map and a name, not a text and a whole number"},
		{"event.reason.name == 'a'", `column 14: a text has no fields, so no "name"`},
		{"event.count.name == 'a'", `column 13: a whole number has no fields, so no "name"`},
		{"event.message.all(x, x == 'a')", "column 7: all, exists, exists_one, filter and map go through a list or a map, not a text"},
		{"event.metadata.labels.all('x', true)", "column 27: the first of what a macro takes must be a new name, as x in list.exists(x, x == 'a')"},
		{"has(event)", "column 5: has() takes a field, as in has(event.related)"},
		{"has(event.reason, 'a')", "column 1: has is written as in has(event.related)"},
		{"event.count > 1 ? 'a' : 'b'", "must be true or false, and is a text: compare it, as in event.reason == 'BackOff'"},
		{"event.count ? true : false", "column 13: ? : chooses by true or false, not by a whole number"},
		{"event.count > 1 ? true : 'a'", "column 17: ? : chooses between two values of one type, not true or false and a text"},
		{"['a', 1].exists(x, x == 'a')", "column 7: must be a text, and is a whole number"},
		{"event.reason", "must be true or false, and is a text: compare it, as in event.reason == 'BackOff'"},
		{"event.count", "must be true or false, and is a whole number: compare it, as in event.reason == 'BackOff'"},
		{"event", "must be true or false, and is an object: compare one of its fields, as in event.reason == 'BackOff'"},
		{"request.userInfo.groups", "must be true or false, and is a list of texts: compare it, as in event.reason == 'BackOff'"},
		{"request.userInfo.groups == 'a'", "column 25: == compares values of one type, not a list of texts and a text"},
		{"request.userInfo.groups.contains('a')", "column 25: contains is called as text.contains(text), not as list.contains(text)"},
		{"request.userInfo.groups.exists('a')", "column 25: exists is written as in list.exists(x, x == 'a')"},
		{"request.userInfo.groups.exists(g, g = 'a')", `column 37: "=" is no operator: == compares`},
		{"namespace.metadata.name == 'a'", `column 1: "namespace" is not known: names are event and request, and a text needs quotes`},
		{"package == 'a'", `column 1: "package" is not known: names are event and request, and a text needs quotes`},
		{"event.?reason == 'a'", "column 6: optional values (?) are not allowed"},
		{"{'a': 1}.a == 1", "column 1: maps and objects cannot be written in a condition"},
		{"Foo{a: 1}.a == 1", "column 4: maps and objects cannot be written in a condition"},
		{"event{a: 1}.a == 1", "column 6: maps and objects cannot be written in a condition"},
		{"event.reason == string(1, 2)", "column 17: string is called as string(text), string(bool), string(bytes), string(number), string(duration) or string(time), not as string(number, number)"},
		{"event.reason == 'a' &&\nevent.count = 1", `line 2, column 13: "=" is no operator: == compares`},
		{"event.reason == 'a' &&\nevent.cont == 1", `line 2, column 7: "cont" is no field of event; did you mean count?`},
		{"event.a == 'a' || event.b == 'b' || event.c == 'c' || event.d == 'd' || event.e == 'e'", `column 7: "a" is no field of event: its fields are count, eventTime, involvedObject, message, metadata and reason; column 25: "b" is no field of event: its fields are count, eventTime, involvedObject, message, metadata and reason; column 43: "c" is no field of event: its fields are count, eventTime, involvedObject, message, metadata and reason; and 2 more`},
		{`'\u00zz' == event.reason`, `column 2: "\u" begins no escape here: write \\u for a backslash, or put r before the quotes`},
		{"b'a' == event.reason", "column 6: == compares values of one type, not bytes and a text"},
		{"event.message.getHours() == 1", "column 15: getHours is called as time.getHours(), time.getHours(text) or duration.getHours(), not as text.getHours()"},
		{"event.eventTime.getHours(1) == 1", "column 17: getHours is called as time.getHours(), time.getHours(text) or duration.getHours(), not as time.getHours(number)"},
		{"size(event.count) > 1", "column 1: size is called as size(bytes), bytes.size(), size(list), list.size(), size(map), map.size(), size(text) or text.size(), not as size(number)"},
		{"event.message.size > 1", `column 15: a text has no fields, so no "size"; did you mean size()?`},
		{"event.message.length() > 1", `column 15: there is no function "length"; did you mean size?`},
		{"event.message.toLower() == 'a'", `column 15: there is no function "toLower"; did you mean lowerAscii?`},
		{"event.reason == null", "column 14: null is compared with nothing: has() tells whether a field is there, as in has(event.related)"},
		{"event.reason == `a`", "column 17: `a` is no text: a text has ' or \" around it"},
		{"event.count++ > 1", `column 13: a value is expected after "+", not "+"`},
		{`event.message.matches("a", "b")`, "column 15: matches is called as matches(text, text) or text.matches(text), not as text.matches(text, text)"},
		{"event.message.split('-', 8) == 'a'", "column 29: == compares values of one type, not a list of texts and a text"},
		{"%", `column 1: a value is expected at the beginning, not "%"`},
	} {
		_, err := c.Compile(test.expression)
		if err == nil {
			t.Errorf("%s: is accepted", test.expression)
			continue
		}
		got := err.Error()
		if got != test.says && got != test.says+Functions() {
			t.Errorf("%s: said\n%s\nwant\n%s", test.expression, got, test.says)
		}
		requirePlainWords(t, test.expression, got)
	}
}

// requirePlainWords holds that nothing is said in the words of the library, or on several lines.
func requirePlainWords(t *testing.T, expression, says string) {
	t.Helper()
	for _, words := range []string{
		"Syntax error", "mismatched", "extraneous", "ERROR", "found no matching overload", "undeclared", "undefined field", "expecting", "viable", "token recognition",
		"EOF", "IDENTIFIER", "NUM_", "container", "comprehension", "'_", "@in", "_[_]", "_?_", "__", "test.", "int64", "invalid", "\n",
	} {
		if strings.Contains(says, words) && !strings.Contains(expression, words) {
			t.Errorf("%s: %q has %q", expression, says, words)
		}
	}
}

// TestUnknownLibraryErrorsAreHidden checks that users never see an error text of the library that this package does not know, such as one
// of a later version.
func TestUnknownLibraryErrorsAreHidden(t *testing.T) {
	t.Parallel()
	c := newEvents(t)
	const says = "goto considered harmful"
	for _, got := range []string{
		c.typeErrorText(says, nil), c.parseError("a", []*cel.Error{{Message: says, Location: common.NewLocation(1, 0)}}).Error(),
		c.parseError("a == b", []*cel.Error{{Message: "Syntax error: " + says, Location: common.NewLocation(1, 2)}}).Error(),
		c.parseError("a == b", []*cel.Error{{Message: says, Location: common.NoLocation}}).Error(),
	} {
		if strings.Contains(got, says) || len(got) < 10 {
			t.Errorf("said %q", got)
		}
	}
}

// TestRandomSyntaxErrorsAreNamed removes, doubles and inserts parts of valid expressions. If the result does not compile, the error
// is one line of plain words with a position inside the text. The library's grammar decides: if it parses the text, no syntax
// error is reported.
func TestRandomSyntaxErrorsAreNamed(t *testing.T) {
	t.Parallel()
	c := newEvents(t)
	random := rand.New(rand.NewPCG(1, 2))
	valid := []string{
		"event.reason == 'BackOff' && event.count > 3", "!('system:nodes' in request.userInfo.groups)",
		"request.userInfo.groups.exists(g, g.startsWith('system:'))", "has(event.eventTime) && event.eventTime > timestamp('2030-01-01T00:00:00Z')",
		"event.message.split('-', 8).size() > 2 ? event.count == 1 : event.reason in ['a', 'b',]", "event.metadata.labels['a b'].matches(r'^\\d+$')",
		"(event.reason + '/' + string(-event.count)).size() < 0x10", "event.count > 1 // seldom\n|| event.message == '''a\n'b'''",
	}
	all, vague, refused := 0, 0, 0
	for range 5_000 {
		of := valid[random.IntN(len(valid))]
		parts, wrong := tokens(of)
		if wrong != nil {
			t.Fatalf("%s: %+v", of, wrong)
		}
		for range 1 + random.IntN(2) {
			i, other := random.IntN(len(parts)), parts[random.IntN(len(parts))]
			switch random.IntN(4) {
			case 0:
				parts = slices.Delete(parts, i, i+1)
			case 1:
				parts = slices.Insert(parts, i, parts[i])
			case 2:
				parts = slices.Insert(parts, i, other)
			default:
				text := []rune(parts[i].text)
				parts[i].text = string(text[:random.IntN(len(text)+1)])
			}
			if len(parts) == 0 {
				break
			}
		}
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.text + strings.Repeat(" ", random.IntN(2)))
		}
		expression := b.String()
		all++
		_, err := c.Compile(expression)
		if err == nil {
			continue
		}
		refused++
		says := err.Error()
		requirePlainWords(t, expression, says)
		if strings.Contains(says, "does not parse here") || strings.Contains(says, "do not fit each other") || strings.Contains(says, "cannot be read here") {
			vague++
			t.Logf("%s: %s", expression, says)
		}
	}
	if t.Logf("%d of %d are refused, %d of them in general words", refused, all, vague); refused < all/2 || vague > refused/100 {
		t.Errorf("%d of %d are refused, %d of them in general words", refused, all, vague)
	}
}

// TestValidExpressionsHaveNoSyntaxError holds that the search for flaws finds none where the library's grammar finds none.
func TestValidExpressionsHaveNoSyntaxError(t *testing.T) {
	t.Parallel()
	c := newEvents(t)
	for _, text := range []string{
		"a.?b", "[?a]", "{?'a': b, 'c': d,}", "[1, 2,]", "[]", "{}", "A{}", "a.b.C{d: 1,}", ".a.b == 1", "a[b][c].d(e)", "- -a == --b", "!!a", "a ? b : c ? d : e",
		"a ? (b ? c : d) : [e ? f : g]", "1.5e-3 + 1e5 + .5", "0xFFu == 1u", "r'\\' + R\"a\" + b'\\x00' + br\"b\"", "'\\u00e4\\U0001F600\\101\\n\\'' == \"'\"",
		"\"\"\"a\n\"b\"\"\"", "a // b ( [\n == c", "a.in_b == c.not", "a.contains('b')", "a in [b] && !(c in d)", "true && null == false", "1.size()", "a.`b`",
	} {
		if _, issues := c.env.Parse(text); issues.Err() != nil && !strings.Contains(issues.Err().Error(), "unsupported syntax") {
			t.Errorf("%s does not parse: %v", text, issues.Err())
		}
		if found := checkSyntax(text); found != nil {
			t.Errorf("%s: %+v", text, found)
		}
	}
}

// FuzzCompile compiles arbitrary texts. Each error must be one line of plain words.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{"", "event.reason == 'a'", "event.count > 5m", "a.`b`[.5]", "'\\u12'", "((", "?:", "\"\"\"", "// a", "event.reason.matches(r'\\d')", "[1, 'a'].map(x, y)", "\xff", "a{b: c}"} {
		f.Add(text)
	}
	c := newEvents(f)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := c.Compile(text)
		if err == nil {
			return
		}
		requirePlainWords(t, text, err.Error())
	})
}
