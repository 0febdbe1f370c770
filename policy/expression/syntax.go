package expression

import (
	"fmt"
	"slices"
	"strings"
)

// grammar goes through the tokens of an expression, and finds the first that cannot be where it is.
type grammar struct {
	open   []token // brackets, and ? without their :
	before *token
	// value says that one has ended, so that an operator or the end may follow.
	value bool
}

// flawOf is the first flaw of an expression, or nil if it finds none.
func flawOf(text string) *flaw {
	all, wrong := tokens(text)
	if len(all) == 0 && wrong == nil {
		return &flaw{0, "is empty: must be an expression, such as event.reason == 'BackOff'"}
	}
	g := &grammar{}
	for i := range all {
		if found := g.take(&all[i]); found != nil {
			return found
		}
		g.before = &all[i]
	}
	if wrong != nil {
		return wrong
	}
	return g.end(len([]rune(strings.TrimRight(text, " \t\r\n"))))
}

// end is what is wrong with an expression that ends.
func (g *grammar) end(at int) *flaw {
	switch {
	case !g.value && g.before.text == ".":
		return &flaw{at, `the name of a field is expected after "."`}
	case !g.value:
		return &flaw{at, fmt.Sprintf("a value is expected after %q", g.before.text)}
	case len(g.open) == 0:
		return nil
	}
	last := g.open[len(g.open)-1]
	if last.text == "?" {
		return &flaw{last.at, "the ? that stands here has no : after it, as in a ? b : c"}
	}
	return &flaw{last.at, fmt.Sprintf("the %s that stands here is not closed", last.text)}
}

// take takes a token.
func (g *grammar) take(t *token) *flaw {
	if g.before != nil && g.before.text == "." && g.before.kind == sign {
		if reserved := slices.Contains([]string{"in", "true", "false", "null"}, t.text); reserved {
			return &flaw{t.at, fmt.Sprintf("%q is a reserved word, and no name of a field", t.text)}
		}
		if t.kind == word || t.text == "?" {
			g.value = t.kind == word
			return nil
		}
		return &flaw{t.at, fmt.Sprintf("the name of a field is expected after \".\", not %s", show(t.text))}
	}
	if g.value {
		return g.afterValue(t)
	}
	return g.beforeValue(t)
}

// beforeValue takes a token where a value is expected.
func (g *grammar) beforeValue(t *token) *flaw {
	switch {
	case t.kind == word && t.text[0] == '`':
		return &flaw{t.at, fmt.Sprintf("%s is no text: a text has ' or \" around it", t.text)}
	case t.kind != sign && t.text != "in":
		g.value = true
	case t.text == "-" || t.text == "!" || t.text == ".":
	case slices.Contains([]string{"(", "[", "{"}, t.text):
		g.open = append(g.open, *t)
	case g.closes(t) && g.mayBeEmpty(t):
		return g.closed(t)
	case t.text == "?" && g.before != nil && (g.before.text == "[" || g.before.text == "{" || g.before.text == ","):
	default:
		after := "at the beginning"
		if g.before != nil {
			after = fmt.Sprintf("after %q", g.before.text)
		}
		return &flaw{t.at, fmt.Sprintf("a value is expected %s, not %s", after, show(t.text))}
	}
	return nil
}

// mayBeEmpty reports whether brackets may close without a value before: those of a call, list or object that has none, and of a
// list or object after a comma.
func (g *grammar) mayBeEmpty(t *token) bool {
	if len(g.open) == 0 {
		return false
	}
	last := g.open[len(g.open)-1]
	switch g.before.text {
	case "(":
		return last.kind == behindValue
	case "[", "{":
		return last.kind != behindValue
	case ",":
		return t.text != ")"
	}
	return false
}

func (g *grammar) closes(t *token) bool {
	return g.before != nil && slices.Contains([]string{")", "]", "}"}, t.text)
}

// afterValue takes a token behind a value.
func (g *grammar) afterValue(t *token) *flaw {
	if t.kind != sign && t.text != "in" {
		return g.noOperator(t)
	}
	switch t.text {
	case ")", "]", "}":
		return g.closed(t)
	case "(":
		if g.before.kind != word {
			return &flaw{t.at, fmt.Sprintf("an operator, such as == or &&, is expected before %q", t.text)}
		}
		g.open = append(g.open, token{behindValue, t.text, t.at})
	case "[":
		g.open = append(g.open, token{behindValue, t.text, t.at})
	case "{", "?":
		g.open = append(g.open, *t)
	case ":":
		if len(g.open) == 0 || g.open[len(g.open)-1].text != "?" && g.open[len(g.open)-1].text != "{" {
			return &flaw{t.at, `":" has no ? before it, as in a ? b : c`}
		}
		if g.open[len(g.open)-1].text == "?" {
			g.open = g.open[:len(g.open)-1]
		}
	case ",":
		if !g.mayHaveSeveral() {
			return &flaw{t.at, `"," separates values in a list or a call only: && means and, || means or`}
		}
	case "!":
		return &flaw{t.at, `"!" stands between two values: != compares, and ! before a value means not`}
	}
	g.value = false
	return nil
}

// mayHaveSeveral reports whether the brackets around have values with commas between them.
func (g *grammar) mayHaveSeveral() bool {
	if len(g.open) == 0 {
		return false
	}
	switch last := g.open[len(g.open)-1]; last.text {
	case "(":
		return last.kind == behindValue
	case "[":
		return last.kind != behindValue
	case "{":
		return true
	}
	return false
}

// closed closes a bracket.
func (g *grammar) closed(t *token) *flaw {
	opens := map[string]string{")": "(", "]": "[", "}": "{"}[t.text]
	last := len(g.open) - 1
	switch {
	case last < 0:
		return &flaw{t.at, fmt.Sprintf("no %s is open for this %q", opens, t.text)}
	case g.open[last].text == "?":
		return &flaw{g.open[last].at, "the ? that stands here has no : after it, as in a ? b : c"}
	case g.open[last].text != opens:
		return &flaw{t.at, fmt.Sprintf("%q does not close the %s that is open", t.text, g.open[last].text)}
	}
	g.open, g.value = g.open[:last], true
	return nil
}

// noOperator says what is wrong where a value follows a value.
func (g *grammar) noOperator(t *token) *flaw {
	for _, one := range []*token{t, g.before} {
		if means := instead(one.text); one.kind == word && means != "" {
			return &flaw{one.at, fmt.Sprintf("%q is no operator: %s", one.text, means)}
		}
	}
	return &flaw{t.at, fmt.Sprintf("an operator, such as == or &&, is expected before %s", show(t.text))}
}

// instead says what to write in place of a word that other languages have between values.
func instead(name string) string {
	switch strings.ToLower(name) {
	case "and":
		return "&& means and"
	case "or":
		return "|| means or"
	case "not":
		return "! means not, as in !(a in b)"
	case "is", "eq", "equals":
		return "== compares"
	case "ne":
		return "!= compares"
	case "lt", "gt", "le", "ge":
		return "<, >, <= and >= compare"
	case "mod", "div":
		return "% and / divide"
	case "if", "then", "else":
		return "a ? b : c chooses"
	case "like":
		return "contains(), startsWith(), endsWith() and matches() search a text"
	}
	for _, one := range []string{"contains", "startsWith", "endsWith", "matches"} {
		if strings.EqualFold(name, one) {
			return "it is called, as in event.message." + one + "('timeout')"
		}
	}
	return ""
}

// show is a part of an expression in quotes, or its beginning.
func show(text string) string {
	const most = 40
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "..."
	}
	if strings.ContainsAny(text, `"\`) {
		return "'" + text + "'"
	}
	return `"` + text + `"`
}
