package expression

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// wrongTypes explains which types a function takes, and which it got. given is in the form of the library: (int, string), or
// string.(int) for a call with a dot.
func (c *Compiler) wrongTypes(name, given string) string {
	target, args, member := strings.Cut(given, ".(")
	if !member {
		args = strings.TrimPrefix(given, "(")
	}
	all := splitTypes(strings.TrimSuffix(args, ")"))
	if isName(name) {
		return c.wrongCall(name, target, all, member)
	}
	what := make([]string, len(all))
	for i, one := range all {
		what[i] = describeType(one)
	}
	switch {
	case name == operators.In && len(all) == 2 && all[0] == "string" && all[1] == "string":
		return "in looks for a value in a list: contains() looks for a text in a text, as in event.message.contains('timeout')"
	case name == operators.Conditional && len(what) == 3 && all[0] != "bool":
		return "? : chooses by true or false, not by " + what[0]
	case name == operators.Conditional && len(what) == 3:
		return fmt.Sprintf("? : chooses between two values of one type, not %s and %s", what[1], what[2])
	case slices.Contains(all, "null"):
		return "null is compared with nothing: has() tells whether a field is there, as in has(event.related)"
	}
	return symbol(name) + " " + operandTypes(name) + ", not " + strings.Join(what, " and ")
}

// operandTypes returns the types that an operator takes.
func operandTypes(name string) string {
	switch name {
	case operators.Equals, operators.NotEquals:
		return "compares values of one type"
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return "compares numbers, texts, times or durations with each other"
	case operators.LogicalAnd, operators.LogicalOr:
		return "takes true or false on both sides"
	case operators.LogicalNot:
		return "takes true or false"
	case operators.Add:
		return "adds numbers of one type, texts, or durations"
	case operators.Subtract:
		return "takes numbers of one type, times or durations"
	case operators.Negate:
		return "takes a number"
	case operators.Multiply, operators.Divide, operators.Modulo:
		return "takes numbers of one type"
	case operators.In:
		return "looks for a value in a list or for a name in a map"
	case operators.Index:
		return "takes a list and a whole number, or a map and a name"
	}
	return "takes other values"
}

// wrongCall explains how a function is called, and how it was called.
func (c *Compiler) wrongCall(name, target string, args []string, member bool) string {
	written := func(target string, member bool, args []string) string {
		short := make([]string, len(args))
		for i, one := range args {
			short[i] = shortType(one)
		}
		call := name + "(" + strings.Join(short, ", ") + ")"
		if member {
			call = shortType(target) + "." + call
		}
		return call
	}
	var usual []string
	if f := c.env.Functions()[name]; f != nil {
		for _, o := range f.OverloadDecls() {
			var of []string
			for _, t := range o.ArgTypes() {
				of = append(of, cel.FormatCELType(t))
			}
			on := ""
			if o.IsMemberFunction() {
				on, of = of[0], of[1:]
			}
			if call := written(on, o.IsMemberFunction(), of); !slices.Contains(usual, call) {
				usual = append(usual, call)
			}
		}
	}
	return fmt.Sprintf("%s is called as %s, not as %s", name, joinList(usual, "or"), written(target, member, args))
}

// splitTypes splits a list of types at the commas outside of brackets.
func splitTypes(list string) (all []string) {
	depth, begin := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			all, begin = append(all, strings.TrimSpace(list[begin:i])), i+1
		}
	}
	if rest := strings.TrimSpace(list[begin:]); rest != "" {
		all = append(all, rest)
	}
	return all
}

// typeName returns a type in words.
func typeName(t *types.Type) string { return describeType(cel.FormatCELType(t)) }

// describeType returns a type, in the form of the library, in words.
func describeType(typ string) string {
	switch name, of, _ := strings.Cut(strings.TrimSuffix(typ, ")"), "("); name {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	case "uint":
		return "a number with u"
	case "double":
		return "a number with a point"
	case "string":
		return "a text"
	case "timestamp", "google.protobuf.Timestamp":
		return "a time"
	case "duration", "google.protobuf.Duration":
		return "a duration"
	case "null", "null_type", "bytes":
		return strings.TrimSuffix(name, "_type")
	case "list":
		if of == "string" {
			return "a list of texts"
		}
		return "a list"
	case "map":
		return "a map"
	case "type":
		return "a type"
	case "dyn", "any":
		return "a value of any type"
	}
	return objectText
}

// objectText describes an object type.
const objectText = "an object"

// shortType returns a type in one word.
func shortType(typ string) string {
	switch name, _, _ := strings.Cut(typ, "("); name {
	case "bool", "list", "map", "null", "type", "bytes":
		return name
	case "int", "uint", "double":
		return "number"
	case "dyn", "any":
		return "value"
	}
	if len(typ) == 1 { // a type parameter, as in list(T)
		return "value"
	}
	says := describeType(typ)
	return says[strings.LastIndex(says, " ")+1:]
}

// wrongLiteral explains why a function cannot parse a literal text.
func wrongLiteral(function string, e ast.Expr) string {
	text := ""
	if e != nil && e.Kind() == ast.LiteralKind {
		if s, ok := e.AsLiteral().(types.String); ok {
			text = string(s)
		}
	}
	switch function {
	case "timestamp":
		return quoteStart(text) + " is no time: a time is written timestamp('2026-01-01T12:00:00Z')"
	case "duration":
		return quoteStart(text) + " is no duration: a duration is written duration('1h30m')"
	}
	return quoteStart(text) + " is no regular expression" + badPattern(text)
}

// badPattern explains the error in a regular expression.
func badPattern(pattern string) string {
	_, err := syntax.Parse(pattern, syntax.Perl)
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		return ": " + wrong.Code.String()
	}
	return ""
}
