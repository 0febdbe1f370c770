package expression

import (
	"fmt"
	"slices"
	"strings"
)

// syntaxChecker checks the tokens of an expression, and finds the first one that is out of place.
type syntaxChecker struct {
	open     []token // brackets, and ? without their :
	previous *token
	// afterOperand reports that an operand has ended, so that an operator or the end may follow.
	afterOperand bool
}

// checkSyntax returns the first syntax error of an expression, or nil if it finds none.
func checkSyntax(text string) *syntaxError {
	all, wrong := tokens(text)
	if len(all) == 0 && wrong == nil {
		return &syntaxError{0, "is empty: must be an expression, such as event.reason == 'BackOff'"}
	}
	g := &syntaxChecker{}
	for i := range all {
		if found := g.consume(&all[i]); found != nil {
			return found
		}
		g.previous = &all[i]
	}
	if wrong != nil {
		return wrong
	}
	return g.end(len([]rune(strings.TrimRight(text, " \t\r\n"))))
}

// end returns the error of an expression that ends too early, or nil.
func (g *syntaxChecker) end(at int) *syntaxError {
	switch {
	case !g.afterOperand && g.previous.text == ".":
		return &syntaxError{at, `the name of a field is expected after "."`}
	case !g.afterOperand:
		return &syntaxError{at, fmt.Sprintf("a value is expected after %q", g.previous.text)}
	case len(g.open) == 0:
		return nil
	}
	last := g.open[len(g.open)-1]
	if last.text == "?" {
		return &syntaxError{last.pos, "the ? that stands here has no : after it, as in a ? b : c"}
	}
	return &syntaxError{last.pos, fmt.Sprintf("the %s that stands here is not closed", last.text)}
}

// consume checks the next token.
func (g *syntaxChecker) consume(t *token) *syntaxError {
	if g.previous != nil && g.previous.text == "." && g.previous.kind == sign {
		if reserved := slices.Contains([]string{"in", "true", "false", "null"}, t.text); reserved {
			return &syntaxError{t.pos, fmt.Sprintf("%q is a reserved word, and no name of a field", t.text)}
		}
		if t.kind == word || t.text == "?" {
			g.afterOperand = t.kind == word
			return nil
		}
		return &syntaxError{t.pos, fmt.Sprintf("the name of a field is expected after \".\", not %s", quoteStart(t.text))}
	}
	if g.afterOperand {
		return g.afterValue(t)
	}
	return g.beforeValue(t)
}

// beforeValue checks a token where a value is expected.
func (g *syntaxChecker) beforeValue(t *token) *syntaxError {
	switch {
	case t.kind == word && t.text[0] == '`':
		return &syntaxError{t.pos, fmt.Sprintf("%s is no text: a text has ' or \" around it", t.text)}
	case t.kind != sign && t.text != "in":
		g.afterOperand = true
	case t.text == "-" || t.text == "!" || t.text == ".":
	case slices.Contains([]string{"(", "[", "{"}, t.text):
		g.open = append(g.open, *t)
	case g.closes(t) && g.mayBeEmpty(t):
		return g.closeBracket(t)
	case t.text == "?" && g.previous != nil && (g.previous.text == "[" || g.previous.text == "{" || g.previous.text == ","):
	default:
		after := "at the beginning"
		if g.previous != nil {
			after = fmt.Sprintf("after %q", g.previous.text)
		}
		return &syntaxError{t.pos, fmt.Sprintf("a value is expected %s, not %s", after, quoteStart(t.text))}
	}
	return nil
}

// mayBeEmpty reports whether brackets may close without a value before: those of an empty call, list or object, and those of a
// list or object after a comma.
func (g *syntaxChecker) mayBeEmpty(t *token) bool {
	if len(g.open) == 0 {
		return false
	}
	last := g.open[len(g.open)-1]
	switch g.previous.text {
	case "(":
		return last.kind == callBracket
	case "[", "{":
		return last.kind != callBracket
	case ",":
		return t.text != ")"
	}
	return false
}

func (g *syntaxChecker) closes(t *token) bool {
	return g.previous != nil && slices.Contains([]string{")", "]", "}"}, t.text)
}

// afterValue checks a token after a value.
func (g *syntaxChecker) afterValue(t *token) *syntaxError {
	if t.kind != sign && t.text != "in" {
		return g.missingOperator(t)
	}
	switch t.text {
	case ")", "]", "}":
		return g.closeBracket(t)
	case "(":
		if g.previous.kind != word {
			return &syntaxError{t.pos, fmt.Sprintf("an operator, such as == or &&, is expected before %q", t.text)}
		}
		g.open = append(g.open, token{callBracket, t.text, t.pos})
	case "[":
		g.open = append(g.open, token{callBracket, t.text, t.pos})
	case "{", "?":
		g.open = append(g.open, *t)
	case ":":
		if len(g.open) == 0 || g.open[len(g.open)-1].text != "?" && g.open[len(g.open)-1].text != "{" {
			return &syntaxError{t.pos, `":" has no ? before it, as in a ? b : c`}
		}
		if g.open[len(g.open)-1].text == "?" {
			g.open = g.open[:len(g.open)-1]
		}
	case ",":
		if !g.allowsComma() {
			return &syntaxError{t.pos, `"," separates values in a list or a call only: && means and, || means or`}
		}
	case "!":
		return &syntaxError{t.pos, `"!" stands between two values: != compares, and ! before a value means not`}
	}
	g.afterOperand = false
	return nil
}

// allowsComma reports whether commas separate values in the enclosing brackets.
func (g *syntaxChecker) allowsComma() bool {
	if len(g.open) == 0 {
		return false
	}
	switch last := g.open[len(g.open)-1]; last.text {
	case "(":
		return last.kind == callBracket
	case "[":
		return last.kind != callBracket
	case "{":
		return true
	}
	return false
}

// closeBracket closes a bracket.
func (g *syntaxChecker) closeBracket(t *token) *syntaxError {
	opens := map[string]string{")": "(", "]": "[", "}": "{"}[t.text]
	last := len(g.open) - 1
	switch {
	case last < 0:
		return &syntaxError{t.pos, fmt.Sprintf("no %s is open for this %q", opens, t.text)}
	case g.open[last].text == "?":
		return &syntaxError{g.open[last].pos, "the ? that stands here has no : after it, as in a ? b : c"}
	case g.open[last].text != opens:
		return &syntaxError{t.pos, fmt.Sprintf("%q does not close the %s that is open", t.text, g.open[last].text)}
	}
	g.open, g.afterOperand = g.open[:last], true
	return nil
}

// missingOperator explains the error if a value follows a value.
func (g *syntaxChecker) missingOperator(t *token) *syntaxError {
	for _, one := range []*token{t, g.previous} {
		if means := suggestOperator(one.text); one.kind == word && means != "" {
			return &syntaxError{one.pos, fmt.Sprintf("%q is no operator: %s", one.text, means)}
		}
	}
	return &syntaxError{t.pos, fmt.Sprintf("an operator, such as == or &&, is expected before %s", quoteStart(t.text))}
}

// suggestOperator suggests an operator for a word that other languages have between values.
func suggestOperator(name string) string {
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

// quoteStart returns a part of an expression in quotes, shortened to its beginning if it is long.
func quoteStart(text string) string {
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
