package expression

import (
	"fmt"
	"maps"
	"math/rand/v2"
)

// generator writes random expressions of what is allowed. It prefers parts that cost much of what was estimated.
type generator struct {
	*rand.Rand

	locals map[string][]string // variables by type
	best   map[string][]string // parts by type
	names  int
}

func (w *generator) pick(of ...string) string { return of[w.IntN(len(of))] }

const (
	isText, isNumber, isBool, isTexts, isNumbers, isTime = "text", "number", "bool", "texts", "numbers", "time"
)

func (w *generator) literal() string {
	return w.pick("''", "' '", "'a'", "'ab'", "','", "'€'", "'aaaaaaaaaaaaaaab'", "'0123456789012345678901234567890123456789'")
}

func (w *generator) pattern() string {
	return w.pick("'a'", "'(a|b)*c'", "'(a*)*b'", "'^(a|ab|abc) .*z$'", "'(.*)(.*)(.*)x'", "'[a-z]{20}9'", "'(a?){20}b'", "'.{60}x'", "'(€|a| )+$'", "'(a|b|c|d|e|f|g|h| )*z'")
}

// text is a text of a type, at most so deep.
func (w *generator) part(typ string, deep int) string {
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

func (w *generator) choose(all ...func() string) string { return all[w.IntN(len(all))]() }

// macro is one over a list, with a variable of a type, and a body of another.
func (w *generator) macro(deep int, variable, body string, over func() string, name string) string {
	list := over()
	w.names++
	v := fmt.Sprint("v", w.names)
	before := w.locals
	w.locals = maps.Clone(before)
	w.locals[variable] = append(append([]string(nil), before[variable]...), v)
	defer func() { w.locals = before }()
	if name == "map" && w.IntN(3) == 0 {
		return list + ".map(" + v + ", " + w.part(isBool, deep-1) + ", " + w.part(body, deep-1) + ")"
	}
	return list + "." + name + "(" + v + ", " + w.part(body, deep-1) + ")"
}
