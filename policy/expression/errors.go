package expression

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
)

// maxErrors is how many mistakes an error lists.
const maxErrors = 3

// parseError explains in plain words why an expression does not parse. The library also reports errors that follow from the first
// one, so only the first is used.
func (c *Compiler) parseError(text string, all []*cel.Error) error {
	for _, one := range all {
		if !strings.HasPrefix(one.Message, "Syntax error") {
			continue
		}
		if found := checkSyntax(text); found != nil {
			return errors.New(offsetText(text, found.pos) + found.reason)
		}
		return errors.New(positionText(text, one.Location) + "the expression does not parse here: check the operators, brackets and quotes around it")
	}
	why := parserErrorText(all[0].Message)
	if name, reserved := strings.CutPrefix(all[0].Message, "reserved identifier: "); reserved {
		why = c.unknownName(name, nil)
	}
	return errors.New(positionText(text, all[0].Location) + why)
}

// parserErrorText explains an error of the parser in text that the grammar allows.
func parserErrorText(says string) string {
	for _, one := range []struct{ parser, why string }{
		{"unsupported syntax", "optional values (?) are not allowed"},
		{"invalid int literal", "a whole number must be from -9223372036854775808 to 9223372036854775807"},
		{"invalid uint literal", "a number with u must be from 0u to 18446744073709551615u"},
		{"invalid double literal", "a number with a point must be one that 64 bits hold"},
		{"has() macro", "has() takes a field, as in has(event.related)"},
		{"simple name", "the first of what a macro takes must be a new name, as x in list.exists(x, x == 'a')"},
		{"not an identifier", "the first of what a macro takes must be a new name, as x in list.exists(x, x == 'a')"},
		{"iteration variable", "the first of what a macro takes must be another name"},
		{"unicode", "an escape in a text is no character"},
		{"escape", "an escape in a text is no character"},
		{"recursion", "the expression is nested too deeply"},
		{"size exceeds", "the expression is too long"},
	} {
		if strings.Contains(says, one.parser) {
			return one.why
		}
	}
	return "the expression cannot be read here"
}

// positionText describes a position in an expression, if there is one.
func positionText(text string, l common.Location) string {
	if l.Line() < 1 {
		return ""
	}
	if !strings.Contains(text, "\n") {
		return fmt.Sprintf("column %d: ", l.Column()+1)
	}
	return fmt.Sprintf("line %d, column %d: ", l.Line(), l.Column()+1)
}

// offsetText describes a position by its offset in characters.
func offsetText(text string, offset int) string {
	before := string([]rune(text)[:offset])
	line := strings.Count(before, "\n")
	return positionText(text, common.NewLocation(line+1, len([]rune(before[strings.LastIndex(before, "\n")+1:]))))
}

// namePosition returns where the name of a function or field begins. The library reports the bracket behind a function, and the dot
// before a field.
func namePosition(text string, l common.Location, e ast.Expr) common.Location {
	lines := strings.Split(text, "\n")
	if e == nil || l.Line() < 1 || l.Line() > len(lines) {
		return l
	}
	line, at := []rune(lines[l.Line()-1]), l.Column()
	switch e.Kind() {
	case ast.CallKind:
		if name := e.AsCall().FunctionName(); at >= len(name) && at <= len(line) && string(line[at-len(name):at]) == name {
			return common.NewLocation(l.Line(), at-len(name))
		}
	case ast.SelectKind:
		if at < len(line) && line[at] == '.' {
			return common.NewLocation(l.Line(), at+1)
		}
	default:
	}
	return l
}

// checkError explains in plain words the wrong names and types of an expression.
func (c *Compiler) checkError(text string, parsed *ast.AST, all []*cel.Error) error {
	nodes := map[int64]ast.Expr{}
	ast.PostOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) { nodes[e.ID()] = e }))
	var says []string
	for _, one := range all[:min(len(all), maxErrors)] {
		e := nodes[one.ExprID]
		says = append(says, positionText(text, namePosition(text, one.Location, e))+c.typeErrorText(one.Message, e))
	}
	if more := len(all) - len(says); more > 0 {
		says = append(says, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(says, "; "))
}

// typeErrorText explains the error in a part of an expression. The library's message uses internal names and types.
func (c *Compiler) typeErrorText(says string, e ast.Expr) string {
	in := func(pattern string) []string { return regexp.MustCompile(pattern).FindStringSubmatch(says) }
	if m := in(`^undeclared reference to '(.*)' \(in container`); m != nil {
		return c.unknownName(m[1], e)
	}
	if m := in(`^undefined field '(.*)'$`); m != nil {
		return c.unknownField(m[1], e)
	}
	if m := in(`^found no matching overload for '(.*)' applied to '(.*)'$`); m != nil {
		return c.wrongTypes(m[1], m[2])
	}
	if m := in(`^expected type '(.*)' but found '(.*)'$`); m != nil {
		return "must be " + describeType(m[1]) + ", and is " + describeType(m[2])
	}
	if m := in(`^type '(.*)' does not support field selection$`); m != nil {
		what := describeType(m[1])
		if e == nil || e.Kind() != ast.SelectKind {
			return what + " has no fields"
		}
		name := e.AsSelect().FieldName()
		if _, ok := functionNames()[name]; ok {
			return fmt.Sprintf("%s has no fields, so no %s; did you mean %s()?", what, quoteStart(name), name)
		}
		return fmt.Sprintf("%s has no fields, so no %s", what, quoteStart(name))
	}
	if m := in(`^expression of type '(.*)' cannot be range`); m != nil {
		return "all, exists, exists_one, filter and map go through a list or a map, not " + describeType(m[1])
	}
	if m := in(`^invalid (\w+) argument$`); m != nil {
		return wrongLiteral(m[1], e)
	}
	if e != nil && e.Kind() == ast.StructKind || strings.HasSuffix(says, "is not a type") || strings.HasSuffix(says, "is not a message type") {
		return noObjects
	}
	return "the names and types here do not fit each other"
}
