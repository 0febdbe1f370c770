package expression

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/interpreter"
)

// thing is what the expressions of tests read.
type thing struct {
	text, short string
	number      int64
	at          time.Time
	list        []string
	texts       map[string]string
	lists       map[string][]string
}

func newCompiler(tb testing.TB) *Compiler {
	tb.Helper()
	c, err := NewCompiler(map[string]string{"e": "test.Thing"}, map[string]Object{"test.Thing": {
		"text":   Text(func(t *thing) string { return t.text }),
		"short":  Text(func(t *thing) string { return t.short }),
		"number": Int(func(t *thing) int64 { return t.number }),
		"at":     Time(func(t *thing) time.Time { return t.at }),
		"list":   Texts(func(t *thing) []string { return t.list }),
		"texts":  TextMap(func(t *thing) map[string]string { return t.texts }, nil),
		"lists":  TextsMap(func(t *thing) map[string][]string { return t.lists }),
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func variablesOf(tb testing.TB, e any) interpreter.Activation {
	tb.Helper()
	a, err := interpreter.NewActivation(map[string]any{"e": e})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// things are at the bounds of what is read, each of one kind of text.
func things() (all []*thing) {
	for _, part := range []string{" ", "a", "ab ", "€", "\x00", "\"", "1", "x,y "} {
		long := strings.Repeat(part, MaxText/len(part))
		t := &thing{text: long, short: part, number: 7, at: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), texts: map[string]string{}, lists: map[string][]string{}}
		for i := range MaxEntries {
			t.list = append(t.list, long)
			t.texts[fmt.Sprint(i)] = long
			t.lists[fmt.Sprint(i)] = t.list
		}
		all = append(all, t)
	}
	long := &thing{texts: map[string]string{}}
	for i := range MaxEntries {
		long.texts[fmt.Sprintf("%0*d", MaxName, i)] = "a"
	}
	return append(all, long, &thing{})
}

// writer writes random expressions of what is allowed. It prefers parts that cost much of what was estimated.
type writer struct {
	*rand.Rand

	locals map[string][]string // variables by type
	best   map[string][]string // parts by type
	names  int
}

func (w *writer) pick(of ...string) string { return of[w.IntN(len(of))] }

const (
	isText, isNumber, isBool, isTexts, isNumbers, isTime = "text", "number", "bool", "texts", "numbers", "time"
)

func (w *writer) literal() string {
	return w.pick("''", "' '", "'a'", "'ab'", "','", "'€'", "'aaaaaaaaaaaaaaab'", "'0123456789012345678901234567890123456789'")
}

func (w *writer) pattern() string {
	return w.pick("'a'", "'(a|b)*c'", "'(a*)*b'", "'^(a|ab|abc) .*z$'", "'(.*)(.*)(.*)x'", "'[a-z]{20}9'", "'(a?){20}b'", "'.{60}x'", "'(€|a| )+$'", "'(a|b|c|d|e|f|g|h| )*z'")
}

// text is a text of a type, at most so deep.
func (w *writer) part(typ string, deep int) string {
	if v := w.locals[typ]; len(v) > 0 && w.IntN(3) == 0 {
		return v[w.IntN(len(v))]
	}
	if b := w.best[typ]; len(b) > 0 && len(w.locals) == 0 && w.IntN(4) == 0 {
		return b[w.IntN(len(b))]
	}
	t, n := func() string { return w.part(isText, deep-1) }, func() string { return w.part(isNumber, deep-1) }
	b, l := func() string { return w.part(isBool, deep-1) }, func() string { return w.part(isTexts, deep-1) }
	switch typ {
	case isText:
		if deep < 1 {
			return w.pick("e.text", "e.short", w.literal(), "e.texts['3']")
		}
		return w.choose(
			func() string { return "(" + t() + " + " + t() + ")" },
			func() string { return t() + "." + w.pick("lowerAscii", "upperAscii", "trim") + "()" },
			func() string { return t() + ".replace(" + t() + ", " + t() + ")" },
			func() string { return t() + ".replace(" + w.literal() + ", " + w.literal() + ")" },
			func() string { return t() + ".replace(" + t() + ", " + t() + ", " + n() + ")" },
			func() string { return t() + ".substring(" + n() + ")" },
			func() string { return t() + ".substring(" + n() + ", " + n() + ")" },
			func() string { return t() + ".charAt(" + n() + ")" },
			func() string { return t() + ".find(" + w.pattern() + ")" },
			func() string { return l() + ".join(" + w.literal() + ")" },
			func() string { return l() + ".join()" },
			func() string { return l() + "[" + n() + "]" },
			func() string { return "e.texts[" + t() + "]" },
			func() string {
				return "string(" + w.part(w.pick(isNumber, isBool, isTime, isText), deep-1) + ")"
			},
			func() string { return "(" + b() + " ? " + t() + " : " + t() + ")" },
		)
	case isNumber:
		if deep < 1 {
			return w.pick("0", "1", "2", "63", "e.number")
		}
		return w.choose(
			func() string { return "size(" + t() + ")" },
			func() string { return "size(" + l() + ")" },
			func() string { return t() + "." + w.pick("indexOf", "lastIndexOf") + "(" + t() + ")" },
			func() string { return "(" + n() + w.pick(" + ", " - ", " * ", " / ", " % ") + n() + ")" },
			func() string { return "int(" + w.part(w.pick(isText, isNumber, isTime), deep-1) + ")" },
			func() string { return w.part(isTime, deep-1) + ".getFullYear()" },
			func() string { return w.part(isNumbers, deep-1) + "[" + n() + "]" },
		)
	case isTime:
		return w.choose(
			func() string { return "e.at" },
			func() string { return "timestamp('2030-01-01T00:00:00Z')" },
			func() string { return "(e.at + duration('1h'))" },
		)
	case isTexts:
		if deep < 1 {
			return w.pick("e.list", "e.lists['2']")
		}
		return w.choose(
			func() string { return t() + ".split(" + w.literal() + ", " + w.pick("5", "64", "4000") + ")" },
			func() string { return t() + ".split(" + w.literal() + ")" },
			func() string { return "[" + t() + ", " + t() + "]" },
			func() string { return "e.lists[" + t() + "]" },
			func() string { return w.macro(deep, isText, isBool, l, "filter") },
			func() string { return w.macro(deep, isText, isText, l, "map") },
			func() string { return w.macro(deep, isText, isText, func() string { return "e.texts" }, "map") },
			func() string {
				return w.macro(deep, isNumber, isText, func() string { return w.part(isNumbers, deep-1) }, "map")
			},
		)
	case isNumbers:
		if deep < 1 {
			return "[1, 2, 3]"
		}
		return w.macro(deep, isText, isNumber, l, "map")
	}
	if deep < 1 {
		return w.pick("true", "has(e.at)", "e.number == 3")
	}
	return w.choose(
		func() string { return "(" + t() + w.pick(" == ", " != ", " < ", " >= ") + t() + ")" },
		func() string { return "(" + n() + w.pick(" == ", " < ") + n() + ")" },
		func() string { return "(" + l() + " == " + l() + ")" },
		func() string { return t() + "." + w.pick("contains", "startsWith", "endsWith") + "(" + t() + ")" },
		func() string { return t() + ".matches(" + w.pattern() + ")" },
		func() string { return "(" + t() + " in " + l() + ")" },
		func() string { return "(" + t() + " in e.texts)" },
		func() string { return "(" + b() + w.pick(" && ", " || ") + b() + ")" },
		func() string { return "!" + b() },
		func() string { return "bool(" + t() + ")" },
		func() string { return w.macro(deep, isText, isBool, l, w.pick("all", "exists", "exists_one")) },
		func() string {
			return w.macro(deep, isText, isBool, func() string { return "e.texts" }, w.pick("all", "exists", "exists_one"))
		},
	)
}

func (w *writer) choose(all ...func() string) string { return all[w.IntN(len(all))]() }

// macro is one over a list, with a variable of a type, and a body of another.
func (w *writer) macro(deep int, variable, body string, over func() string, name string) string {
	list := over()
	w.names++
	v := fmt.Sprint("v", w.names)
	before := w.locals
	w.locals = map[string][]string{}
	for t, all := range before {
		w.locals[t] = all
	}
	w.locals[variable] = append(append([]string(nil), before[variable]...), v)
	defer func() { w.locals = before }()
	if name == "map" && w.IntN(3) == 0 {
		return list + ".map(" + v + ", " + w.part(isBool, deep-1) + ", " + w.part(body, deep-1) + ")"
	}
	return list + "." + name + "(" + v + ", " + w.part(body, deep-1) + ")"
}

// condition makes an expression that holds or not of one of another type.
func condition(typ, part string) string {
	switch typ {
	case isBool:
		return part
	case isText, isTexts, isNumbers:
		return "size(" + part + ") == 12345"
	}
	return part + " == " + part
}

// expressions are how many the search makes. It has found nothing in 100,000.
const expressions = 1000

// TestTheEstimateHolds searches for an expression that takes more memory than its estimate, and for one that is accepted and
// takes much of either, on values at the bounds. How long it takes is only logged: a step is about a nanosecond.
func TestTheEstimateHolds(t *testing.T) {
	c := newCompiler(t)
	w := &writer{Rand: rand.New(rand.NewPCG(30, 0)), best: map[string][]string{}, locals: map[string][]string{}}
	types := []string{isText, isNumber, isBool, isTexts, isNumbers}
	all := things()
	var worst found
	worst.ratios, worst.reported = map[string]float64{}, map[string]int{}
	for range expressions {
		w.names, w.locals = 0, map[string][]string{}
		typ := types[w.IntN(len(types))]
		part := w.part(typ, 1+w.IntN(4))
		e, err := c.Compile(condition(typ, part))
		if len(part) > 2048 || err != nil {
			worst.refused++
			continue
		}
		worst.accepted++
		memory := 0.0
		for i, n := range w.Perm(len(all)) {
			if memory = max(memory, worst.try(t, e, variablesOf(t, all[n]))); i > 2 && memory < 0.3 {
				break // no text makes it take much
			}
		}
		if len(part) < 300 && memory > worst.ratios[typ]*0.7 {
			worst.ratios[typ] = max(memory, worst.ratios[typ])
			w.best[typ] = append(w.best[typ], part)
			if n := len(w.best[typ]); n > 20 {
				w.best[typ] = w.best[typ][n-20:]
			}
		}
	}
	t.Logf("%d accepted, %d refused", worst.accepted, worst.refused)
	t.Logf("%d bytes of %d: %s", worst.bytes, worst.bytesOf.Cost.Bytes, worst.bytesOf.Text)
	t.Logf("%.2f of the estimated bytes: %s", worst.memory, worst.memoryOf.Text)
	t.Logf("%v, %d steps: %s", worst.took, worst.tookOf.Cost.Steps, worst.tookOf.Text)
	t.Logf("%.2f ns a step: %v of %s", worst.time, worst.timeTook, worst.timeOf.Text)
	if worst.accepted < 500 || worst.bytes < 100_000 {
		t.Errorf("the search has found too little")
	}
}

// found is the worst that was found so far.
type found struct {
	accepted, refused int
	reported          map[string]int
	ratios            map[string]float64
	bytes             int64
	bytesOf           *Expression
	memory            float64
	memoryOf          *Expression
	took              time.Duration
	tookOf            *Expression
	time              float64
	timeTook          time.Duration
	timeOf            *Expression
}

// try evaluates an expression, and returns how much of the estimated memory it takes.
func (s *found) try(t *testing.T, e *Expression, variables interpreter.Activation) float64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	_, err := e.Evaluate(variables)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if err != nil && strings.Contains(err.Error(), "internal error") {
		t.Errorf("%s: %v", e.Text, err)
	}
	bytes := int64(after.TotalAlloc - before.TotalAlloc)
	memory := float64(bytes) / float64(e.Cost.Bytes+e.Shared)
	if bytes > e.Cost.Bytes+e.Shared && s.reported[e.Text] == 0 {
		s.reported[e.Text]++
		t.Errorf("%d bytes are allocated, and %d estimated: %s", bytes, e.Cost.Bytes+e.Shared, e.Text)
	}
	if bytes > s.bytes {
		s.bytes, s.bytesOf = bytes, e
	}
	if memory > s.memory {
		s.memory, s.memoryOf = memory, e
	}
	for range 5 { // others may run meanwhile
		began := time.Now()
		_, _ = e.Evaluate(variables)
		took = min(took, time.Since(began))
	}
	if took > s.took {
		s.took, s.tookOf = took, e
	}
	if ratio := float64(took) / float64(e.Cost.Steps); ratio > s.time && took > 50*time.Microsecond {
		s.time, s.timeTook, s.timeOf = ratio, took, e
	}
	return memory
}

// FuzzExpressions compiles anything. What is accepted takes no more memory than is estimated.
func FuzzExpressions(f *testing.F) {
	for _, text := range []string{
		"e.text.replace('a', 'bb', 3).split(' ', 9).exists(w, w == 'a')", "e.list.map(g, g.substring(1)).filter(g, g in e.texts).size() > 1",
		"e.text.find('(a|b)*c') == e.texts['1'] || e.at.getHours() == 3", "[e.short, 'b'].exists_one(x, x.lowerAscii().indexOf('a') == 1)",
		"", "e.", "e.text.matches('(')", "[[]] == [[]]", "{1: 2}[1] == 2", "has(e.texts.a) ? e.number / 0 == 1 : string(e.at) == ''",
	} {
		f.Add(text)
	}
	c, all := newCompiler(f), things()
	f.Fuzz(func(t *testing.T, text string) {
		e, err := c.Compile(text[:min(len(text), 2048)])
		if err != nil {
			return
		}
		tried := found{reported: map[string]int{}}
		for _, thing := range all {
			tried.try(t, e, variablesOf(t, thing))
		}
	})
}
