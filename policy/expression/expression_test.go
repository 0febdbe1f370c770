package expression

import (
	"strings"
	"testing"
)

func TestRefusalsNameReasonAndAllowed(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	const known = "allowed are operators, macros and bool, charAt, contains, double, duration, endsWith, find, getDate, "
	for _, test := range []struct{ says, expression, why string }{
		{"a function without a bound", "e.text.format([1]) == ''", "column 8: the function format is not allowed, as its worst cost is not known: " + known},
		{"one of the API server's", "e.text.findAll('a').size() == 1", "column 8: the function findAll is not allowed, as its worst cost is not known: " + known},
		{"bytes", "size(bytes(e.text)) > 3", "the function bytes is not allowed"},
		{"a type", "type(e.text) == string", "the function type is not allowed"},
		{"dynamic values", "dyn(e.text) == 'a'", "the function dyn is not allowed"},
		{"an object", "e == e", "an object can only be asked for its fields"},
		{"a map that is written", "'a' in {'a': 1}", "maps and objects cannot be written in a condition"},
		{"an object that is written", "test.Thing{}.number == 1", "maps and objects cannot be written in a condition"},
		{"maps that are compared", "e.texts == e.texts", "only scalars, texts and lists of these can be compared"},
		{"lists of lists that are compared", "[e.list] == [e.list]", "only scalars, texts and lists of these can be compared"},
		{"a loop over a map that does not read its names", "e.texts.map(k, 1).size() > 1", "a macro for a map must read \"k\""},
		{"a list of maps", "[e.texts].size() == 1", "a list of maps is not allowed"},
		{"lists that are added", "(e.list + e.list).size() == 1", "is not allowed for lists and maps"},
		{"a time zone", "e.at.getHours(e.text) == 1", "getHours is allowed without a time zone only"},
		{"a time that is computed", "timestamp(e.text) == e.at", "timestamp is allowed for a literal only"},
		{"a pattern that is computed", "e.text.matches(e.short)", "a regular expression must be a literal"},
		{"a pattern that is too long", "e.text.matches('(a{100}){10}b')", "the regular expression has 1023 instructions, more than the 1000 that are allowed"},
		{"a pattern that goes back far", "e.text.matches('(a*b*c*d*e*f*g*h*i*j*)*k')", "bytes of memory on an Event, more than the 4194304 that are allowed"},
		{"a text that grows", "e.text.replace('', e.text) == ''", "column 8: its result may have 16785408 bytes, more than the 65536 that are allowed"},
		{"a text that grows step by step", "(" + strings.Repeat("e.text + ", 16) + "e.text) == ''", "its result may have 69632 bytes"},
		{"a text of a list", "e.list.join() == ''", "its result may have 262144 bytes"},
		{"many parts", "e.text.split(' ').exists(w, w == 'a')", "split may make 4097 texts, more than the 4096 that are allowed: it takes a number as its last argument, as in split(' ', 64)"},
		{"loops in loops", "e.list.exists(a, e.list.exists(b, e.list.exists(c, a == b && b == c)))", "steps on an Event, more than the 5000000 that are allowed"},
		{"loops in one that makes lists", strings.Repeat("[1, 2, 3].map(a, ", 30) + "1" + strings.Repeat(")", 30) + ".size() == 1", "steps on an Event"},
		{"texts that loops make", "e.texts.map(k, e.text.lowerAscii() + k).map(k, k.upperAscii()).size() == 1", "more than the"},
		{"optional values", "e.?text == 'a'", "column 2: optional values (?) are not allowed"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			e, err := c.Compile(test.expression)
			if err == nil {
				t.Fatalf("it is accepted, with a cost of %+v", e.Cost)
			}
			if !strings.Contains(err.Error(), test.why) {
				t.Errorf("%v\nwant %s", err, test.why)
			}
		})
	}
}

// TestCommonConditionsCompile compiles conditions that users write, and some that would take long to compile if a part were
// visited twice.
func TestCommonConditionsCompile(t *testing.T) {
	t.Parallel()
	c := newCompiler(t)
	for _, text := range []string{
		"e.short == 'BackOff' && e.number > 3",
		"!('system:nodes' in e.list)",
		"e.list.exists(g, g.startsWith('system:serviceaccounts:'))",
		"e.short.startsWith('system:node:') || e.short.endsWith('-controller')",
		"'team' in e.texts && e.texts['team'] in ['a', 'b', 'c']",
		"has(e.texts.team) && e.texts.team == 'a'",
		"e.texts.exists(k, k.startsWith('ci.example.com/') && e.texts[k] != '')",
		"e.text.matches('^Failed to pull image .*: (NotFound|Forbidden)$')",
		"e.text.lowerAscii().contains('timeout')",
		"e.short.split('-', 8).size() > 2",
		"has(e.at) && e.at > timestamp('2030-01-01T00:00:00Z') && e.at.getHours() < 6",
		"(e.short + '/' + string(e.number)).size() < 100",
		"e.lists['scopes'] == ['a', 'b']",
		"int(e.texts['limit']) < e.number",
		"e.list.filter(g, g.contains(':')).exists(g, g.endsWith(':a'))",
		strings.Repeat("[1].map(a, ", 60) + "1" + strings.Repeat(")", 60) + ".size() == 1",
	} {
		if _, err := c.Compile(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMissingNameInPartialMapIsUnknown has a map that may have more names.
func TestMissingNameInPartialMapIsUnknown(t *testing.T) {
	t.Parallel()
	type part struct{ names map[string]string }
	c, err := NewCompiler(map[string]string{"e": "test.Part"}, map[string]Object{"test.Part": {
		"names": TextMap(func(p *part) map[string]string { return p.names }, func(*part) error { return unknown("there are more") }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := &part{map[string]string{"a": "1", "b": "2"}}
	for text, want := range map[string]string{
		"'a' in e.names": "true", "'c' in e.names": "unknown", "e.names['a'] == '1'": "true", "e.names['c'] == '1'": "unknown",
		"has(e.names.c)": "unknown", "e.names.size() == 2": "unknown", "e.names.exists(k, k == 'b')": "true", "e.names.exists(k, k == 'c')": "unknown",
		"e.names.all(k, k != 'b')": "false", "e.names.all(k, k != 'c')": "unknown", "e.names.filter(k, k == 'a').size() == 1": "unknown",
	} {
		e, err := c.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		holds, err := e.Evaluate(variablesOf(t, p))
		got := "unknown"
		if err == nil {
			got = map[bool]string{true: "true", false: "false"}[holds]
		}
		if got != want {
			t.Errorf("%s is %s (%v), want %s", text, got, err, want)
		}
	}
}
