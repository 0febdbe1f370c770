package policy_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/policy"
)

// matchResult says whether a message matches one of some globs: "yes", "no" or "unknown".
func matchResult(t *testing.T, message string, globs ...string) string {
	t.Helper()
	w := newRuleBuilder(t)
	p := w.policy(t, "p", fmt.Sprintf("match: {messages: [%s]}", quoted(globs)))
	e := backOff()
	e.Message = message
	matches, err := policy.Matches(t.Context(), policy.NewSet(policy.Default(), policy.Rules{}, nil), &p.Rule, "a", e, create())
	switch {
	case err != nil:
		return "unknown"
	case matches:
		return "yes"
	}
	return "no"
}

func quoted(all []string) string {
	var s []string
	for _, one := range all {
		s = append(s, fmt.Sprintf("%q", one))
	}
	return strings.Join(s, ",")
}

func sorted(all []string) string {
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestGlobs(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 4096), strings.Repeat("b", 10_000)
	for _, test := range []struct {
		says, message string
		globs         []string
		want          string
	}{
		{"no glob", "a", nil, "yes"},
		{"all", "a", []string{"*"}, "yes"},
		{"all of nothing", "", []string{"*"}, "yes"},
		{"a literal", "a", []string{"a"}, "yes"},
		{"a literal and more", "ab", []string{"a"}, "no"},
		{"another case", "A", []string{"a"}, "no"},
		{"a beginning", "abc", []string{"ab*"}, "yes"},
		{"an end", "abc", []string{"*bc"}, "yes"},
		{"a beginning and an end that share a byte", "aba", []string{"ab*ba"}, "no"},
		{"a beginning and an end that meet", "abba", []string{"ab*ba"}, "yes"},
		{"parts in their order", "xaybz", []string{"*a*b*"}, "yes"},
		{"parts in another order", "xbyaz", []string{"*a*b*"}, "no"},
		{"parts that share a byte", "aba", []string{"*ab*ba*"}, "no"},
		{"a part that the end needs", "ab", []string{"*b*b"}, "no"},
		{"stars one after the other", "ab", []string{"a**b"}, "yes"},
		{"lines", "a\nb\nc", []string{"a*c"}, "yes"},
		{"what other globs have", "[a]?", []string{"[a]?"}, "yes"},
		{"a backslash", `a\b`, []string{`a\*`}, "yes"},
		{"one of two", "b", []string{"a", "b"}, "yes"},
		{"none of two", "c", []string{"a", "b"}, "no"},

		{"a long message by its beginning", a + b, []string{"aaa*"}, "yes"},
		{"a long message by its end", b + "end", []string{"*end"}, "yes"},
		{"another end of a long message", b + "enb", []string{"*end"}, "no"},
		{"a long message by its beginning and end", "x" + b + "end", []string{"x*b*end"}, "yes"},
		{"a part that is read", "c" + b, []string{"*c*"}, "yes"},
		{"a part at the end of what is read", a[1:] + "c" + b, []string{"*c*"}, "yes"},
		{"a part beyond what is read", a + "c" + b, []string{"*c*"}, "unknown"},
		{"a part that is not there", a + b, []string{"*c*"}, "unknown"},
		{"a part that is not there, and another beginning", a + b, []string{"b*c*"}, "no"},
		{"a part of which a half is read", a + b, []string{"*ab*"}, "unknown"},
		{"unknown or true", a + b, []string{"*c*", "*b"}, "yes"},
		{"unknown or false", a + b, []string{"*c*", "b*"}, "unknown"},
		{"a long message and a literal", a + b, []string{"a"}, "no"},
		{"the whole message is read", a[1:] + "c", []string{"*d*"}, "no"},
		{"only the end is beyond what is read", a + "end", []string{"*d*end"}, "no"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			if got := matchResult(t, test.message, test.globs...); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestGlobsMatchLikeRegexps tries random ones on random messages, of which some are long.
func TestGlobsMatchLikeRegexps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		text := func(n int, of string) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = of[rnd.IntN(len(of))]
			}
			return string(b)
		}
		glob, message := text(1+rnd.IntN(8), "ab*"), text(rnd.IntN(8), "ab")
		if rnd.IntN(3) == 0 {
			message += strings.Repeat("a", 4090) + text(rnd.IntN(16), "abc")
		}
		want := "no"
		if regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + "$").MatchString(message) {
			want = "yes"
		}
		if got := matchResult(t, message, glob); got != want && (got != "unknown" || len(message) <= 4096) {
			t.Fatalf("seed %d: %q and %q: %s, want %s", seed, glob, message, got, want)
		}
	}
}

// TestLongGlobAllocatesNothing has as many, and as long, as there may be, which match nearly.
func TestLongGlobAllocatesNothing(t *testing.T) {
	w := newRuleBuilder(t)
	var all []string
	for i := range 16 {
		all = append(all, strings.Repeat("*"+strings.Repeat("a", i+1)+"b", 256/(i+3)))
	}
	p := w.policy(t, "p", fmt.Sprintf("match: {messages: [%s]}", quoted(all)))
	s, e, r := policy.NewSet(policy.Default(), policy.Rules{}, namespaceA([]*policy.Policy{p})), backOff(), create()
	e.Message = strings.Repeat("a", 4096)
	if n := testing.AllocsPerRun(10, func() { s.Resolve(t.Context(), "a", e, r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestWorstCaseGlobs searches for globs and a message that take long. How long is only logged: they are looked at in time
// linear in their sizes.
func TestWorstCaseGlobs(t *testing.T) {
	t.Parallel()
	w, rnd := newRuleBuilder(t), rand.New(rand.NewPCG(30, 0))
	var worst time.Duration
	var says string
	for range 300 {
		piece := func(n int) string { return strings.Repeat("a", rnd.IntN(n)) + []string{"", "b", "a"}[rnd.IntN(3)] }
		var globs []string
		for i := range 16 {
			glob := ""
			for n := 1 + rnd.IntN(64); len(glob) < 180; {
				glob += "*" + piece(n)
			}
			globs = append(globs, glob+"*"+strings.Repeat("a", i)+"x")
		}
		p := w.policy(t, "p", fmt.Sprintf("match: {messages: [%s]}", quoted(globs)))
		s, e, r := policy.NewSet(policy.Default(), policy.Rules{}, nil), backOff(), create()
		e.Message = strings.Repeat(strings.Repeat("a", rnd.IntN(200))+"b", 4096)[:4079] + strings.Repeat("a", 16) + "x"
		took := time.Hour
		for range 5 {
			began := time.Now()
			if _, err := policy.Matches(t.Context(), s, &p.Rule, "a", e, r); err != nil {
				t.Fatal(err)
			}
			took = min(took, time.Since(began))
		}
		if took > worst {
			worst, says = took, globs[0]
		}
	}
	t.Logf("%v for 16 globs such as %s", worst, says)
}
