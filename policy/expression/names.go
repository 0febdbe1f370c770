package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/eventquota/eventquota/policy/wellknown"
)

// noObjects explains why braces are not allowed.
const noObjects = "maps and objects cannot be written in a condition"

// unknownName explains that a name does not exist, and suggests a similar one.
func (c *Compiler) unknownName(name string, e ast.Expr) string {
	if e != nil && e.Kind() == ast.StructKind {
		return noObjects
	}
	says := quoteStart(name) + " is not known"
	if e != nil && e.Kind() == ast.CallKind {
		return unknownFunction(name)
	}
	variables := slices.Sorted(maps.Keys(c.variables))
	if meant := wellknown.Closest(name, append(variables, "true", "false", "null")); meant != "" {
		return says + "; did you mean " + meant + "?"
	}
	for _, variable := range variables {
		fields := c.objects[c.variables[variable].TypeName()]
		if _, ok := fields[name]; ok {
			return fmt.Sprintf("%s; did you mean %s.%s?", says, variable, name)
		}
	}
	for _, variable := range variables {
		if strings.HasPrefix(variable, name) {
			return says + "; did you mean " + variable + "?"
		}
	}
	return says + ": names are " + joinList(variables, "and") + ", and a text needs quotes"
}

// unknownField explains that an object has no such field, and lists its fields.
func (c *Compiler) unknownField(name string, e ast.Expr) string {
	says := quoteStart(name) + " is no field"
	if e == nil || e.Kind() != ast.SelectKind {
		return says
	}
	of := e.AsSelect().Operand()
	if path := pathOf(of); path != "" {
		says += " of " + path
	}
	typ := c.typeOf(of)
	if typ == nil {
		return says
	}
	fields := slices.Sorted(maps.Keys(c.objects[typ.TypeName()]))
	if meant := wellknown.Closest(name, fields); meant != "" {
		return says + "; did you mean " + meant + "?"
	}
	return says + ": its fields are " + joinList(fields, "and")
}

// unknownFunction explains that there is no such function, or how a macro of that name is written.
func unknownFunction(name string) string {
	usual := macroForms()[name]
	if usual != "" {
		return name + " is written as in " + usual
	}
	names := slices.Concat(slices.Collect(maps.Keys(functionNames())), slices.Collect(maps.Keys(macroForms())))
	meant := wellknown.Closest(name, names)
	if meant == "" {
		meant = foreignFunctions()[strings.ToLower(name)]
	}
	if meant != "" {
		return fmt.Sprintf("there is no function %s; did you mean %s?", quoteStart(name), meant)
	}
	return fmt.Sprintf("there is no function %s: there are macros and %s", quoteStart(name), Functions())
}

// macroForms returns how each macro is written, as macros look like functions.
func macroForms() map[string]string {
	return map[string]string{
		"all":        "list.all(x, x == 'a')",
		"exists":     "list.exists(x, x == 'a')",
		"exists_one": "list.exists_one(x, x == 'a')",
		"filter":     "list.filter(x, x == 'a')",
		"map":        "list.map(x, x + 'a')",
		"has":        "has(event.related)",
	}
}

// foreignFunctions returns names of functions in other languages, with their names in CEL.
func foreignFunctions() map[string]string {
	return map[string]string{
		"len": "size", "length": "size", "count": "size", "lower": "lowerAscii", "tolower": "lowerAscii", "tolowercase": "lowerAscii",
		"upper": "upperAscii", "toupper": "upperAscii", "touppercase": "upperAscii", "includes": "contains", "match": "matches", "regex": "matches",
		"hasprefix": "startsWith", "hassuffix": "endsWith", "str": "string", "tostring": "string", "any": "exists", "some": "exists", "every": "all",
	}
}

// typeOf returns the type of a variable or of a field of one, or nil.
func (c *Compiler) typeOf(e ast.Expr) *types.Type {
	switch e.Kind() {
	case ast.IdentKind:
		return c.variables[e.AsIdent()]
	case ast.SelectKind:
		if of := c.typeOf(e.AsSelect().Operand()); of != nil {
			return c.objects[of.TypeName()][e.AsSelect().FieldName()].typ
		}
	default:
	}
	return nil
}

// pathOf returns a variable or a field of one as written, or "".
func pathOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if of := pathOf(e.AsSelect().Operand()); of != "" {
			return of + "." + e.AsSelect().FieldName()
		}
	default:
	}
	return ""
}

// functionNames returns the allowed functions that have a name.
func functionNames() map[string]costFunc {
	all := allowedFunctions()
	maps.DeleteFunc(all, func(name string, _ costFunc) bool { return !isName(name) })
	return all
}

func isName(function string) bool { return !strings.ContainsAny(function, "_@!") }

// symbol returns a function as written.
func symbol(function string) string {
	if s, ok := operators.FindReverse(function); ok && s != "" {
		return s
	}
	switch function {
	case operators.Index:
		return "[ ]"
	case operators.Conditional:
		return "? :"
	}
	return function
}

// joinList joins names by commas, and the last one by a word.
func joinList(all []string, word string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " " + word + " " + all[len(all)-1]
}
