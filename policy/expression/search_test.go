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

// sample has the variables of the expressions in tests.
type sample struct {
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
		"text":   Text(func(t *sample) string { return t.text }),
		"short":  Text(func(t *sample) string { return t.short }),
		"number": Int(func(t *sample) int64 { return t.number }),
		"at":     Time(func(t *sample) time.Time { return t.at }),
		"list":   TextList(func(t *sample) []string { return t.list }),
		"texts":  TextMap(func(t *sample) map[string]string { return t.texts }, nil),
		"lists":  TextListMap(func(t *sample) map[string][]string { return t.lists }),
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

// samples are at the bounds of what is read, each of one kind of text.
func samples() (all []*sample) {
	for _, part := range []string{" ", "a", "ab ", "€", "\x00", "\"", "1", "x,y "} {
		long := strings.Repeat(part, MaxText/len(part))
		t := &sample{text: long, short: part, number: 7, at: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), texts: map[string]string{}, lists: map[string][]string{}}
		for i := range MaxListEntries {
			t.list = append(t.list, long)
			t.texts[fmt.Sprint(i)] = long
			t.lists[fmt.Sprint(i)] = t.list
		}
		all = append(all, t)
	}
	long := &sample{texts: map[string]string{}}
	for i := range MaxListEntries {
		long.texts[fmt.Sprintf("%0*d", MaxName, i)] = "a"
	}
	return append(all, long, &sample{})
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

// expressions are how many the search makes.
const expressions = 1000

// TestEstimateIsUpperBound searches for an expression that takes more memory than its estimate, and for one that is accepted and
// takes much of either, on values at the bounds. How long it takes is only logged: a step is about a nanosecond.
func TestEstimateIsUpperBound(t *testing.T) {
	c := newCompiler(t)
	w := &generator{Rand: rand.New(rand.NewPCG(30, 0)), best: map[string][]string{}, locals: map[string][]string{}}
	types := []string{isText, isNumber, isBool, isTexts, isNumbers}
	all := samples()
	var worst searchResult
	worst.ratios, worst.reported = map[string]float64{}, map[string]int{}
	for range expressions {
		w.names, w.locals = 0, map[string][]string{}
		typ := types[w.IntN(len(types))]
		part := w.part(typ, 1+w.IntN(4))
		e, err := c.Compile(condition(typ, part))
		if len(part) > 2048 || err != nil {
			worst.refusedCount++
			continue
		}
		worst.acceptedCount++
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
	t.Logf("%d accepted, %d refused", worst.acceptedCount, worst.refusedCount)
	t.Logf("%d bytes of %d: %s", worst.bytes, worst.bytesOf.Cost.Bytes, worst.bytesOf.Text)
	t.Logf("%.2f of the estimated bytes: %s", worst.memory, worst.memoryOf.Text)
	t.Logf("%v, %d steps: %s", worst.longest, worst.longestOf.Cost.Steps, worst.longestOf.Text)
	t.Logf("%.2f ns a step: %v of %s", worst.time, worst.timeTook, worst.timeOf.Text)
	if worst.acceptedCount < 500 || worst.bytes < 100_000 {
		t.Errorf("the search has found too little")
	}
}

// searchResult is the worst that was found so far.
type searchResult struct {
	acceptedCount, refusedCount int
	reported                    map[string]int
	ratios                      map[string]float64
	bytes                       int64
	bytesOf                     *Expression
	memory                      float64
	memoryOf                    *Expression
	longest                     time.Duration
	longestOf                   *Expression
	time                        float64
	timeTook                    time.Duration
	timeOf                      *Expression
}

// try evaluates an expression, and returns how much of the estimated memory it takes.
func (s *searchResult) try(t *testing.T, e *Expression, variables interpreter.Activation) float64 {
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
	if took > s.longest {
		s.longest, s.longestOf = took, e
	}
	if ratio := float64(took) / float64(e.Cost.Steps); ratio > s.time && took > 50*time.Microsecond {
		s.time, s.timeTook, s.timeOf = ratio, took, e
	}
	return memory
}

// TestEstimateRegressions has expressions whose estimate was once too low by a factor of several.
func TestEstimateRegressions(t *testing.T) {
	c, all := newCompiler(t), samples()
	for _, text := range []string{
		"size(e.text.split('0123456789012345678901234567890123456789', 4000)) == 5",
		"size(e.text.split('0123456789012345678901234567890123456789', e.number + 4000)) == 5",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, e.text.lastIndexOf('b') != n)",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, e.text.indexOf('b') != n)",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, e.text.substring(n) != '')",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, (e.text + e.text).lowerAscii() != '')",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, e.text.replace('a', 'abcdefghijkl') != '')",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, (e.texts[e.text] == '') || true)",
		"[1, 2, 3, 4, 5, 6, 7, 8].all(n, int(e.text) == 3 || true)",
	} {
		e, err := c.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		tried := searchResult{reported: map[string]int{}}
		for _, thing := range all {
			tried.try(t, e, variablesOf(t, thing))
		}
		t.Logf("%.2f of the estimated bytes: %s", tried.memory, text)
	}
}

// FuzzExpressions compiles arbitrary texts. A valid expression must take no more memory than its estimate.
func FuzzExpressions(f *testing.F) {
	for _, text := range []string{
		"e.text.replace('a', 'bb', 3).split(' ', 9).exists(w, w == 'a')", "e.list.map(g, g.substring(1)).filter(g, g in e.texts).size() > 1",
		"e.text.find('(a|b)*c') == e.texts['1'] || e.at.getHours() == 3", "[e.short, 'b'].exists_one(x, x.lowerAscii().indexOf('a') == 1)",
		"", "e.", "e.text.matches('(')", "[[]] == [[]]", "{1: 2}[1] == 2", "has(e.texts.a) ? e.number / 0 == 1 : string(e.at) == ''",
	} {
		f.Add(text)
	}
	c, all := newCompiler(f), samples()
	f.Fuzz(func(t *testing.T, text string) {
		e, err := c.Compile(text[:min(len(text), 2048)])
		if err != nil {
			return
		}
		tried := searchResult{reported: map[string]int{}}
		for _, thing := range all {
			tried.try(t, e, variablesOf(t, thing))
		}
	})
}
