package expression

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

const (
	conditional = operators.Conditional
	add         = operators.Add
)

// function is what a call of an allowed function with such arguments costs, beside these, and how large its result is.
// What it refuses it refuses with a reason.
type function func(w *walk, call ast.Expr, args []value) (size, Cost, error)

// allowed are the functions that conditions may call. What is not here has no bound that is known.
func allowed() map[string]function {
	all := map[string]function{
		conditional:             choose,
		operators.Equals:        equal,
		operators.NotEquals:     equal,
		operators.In:            contained,
		operators.Index:         index,
		add:                     sum,
		"size":                  length,
		"string":                text,
		"contains":              search,
		"startsWith":            search,
		"endsWith":              search,
		"matches":               matches,
		"find":                  matches,
		"charAt":                runes,
		"substring":             runes,
		"lowerAscii":            runes,
		"upperAscii":            runes,
		"trim":                  runes,
		"indexOf":               indexOf,
		"lastIndexOf":           indexOf,
		"replace":               replace,
		"split":                 split,
		"join":                  join,
		"timestamp":             literal,
		"duration":              literal,
		operators.LogicalAnd:    scalars,
		operators.LogicalOr:     scalars,
		operators.LogicalNot:    scalars,
		operators.Negate:        scalars,
		operators.Subtract:      scalars,
		operators.Multiply:      scalars,
		operators.Divide:        scalars,
		operators.Modulo:        scalars,
		operators.Less:          order,
		operators.LessEquals:    order,
		operators.Greater:       order,
		operators.GreaterEquals: order,
		// It is part of each macro.
		operators.NotStrictlyFalse: scalars,
	}
	for _, name := range []string{
		"bool", "int", "uint", "double", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
		"getMilliseconds", "getMinutes", "getMonth", "getSeconds",
	} {
		all[name] = scalars
	}
	return all
}

// Functions are the functions that conditions may call, but for operators.
func Functions() string {
	return strings.Join(slices.Sorted(maps.Keys(functionNames())), ", ")
}

func (w *walk) call(e ast.Expr, v value) (value, error) {
	c := e.AsCall()
	known, ok := w.functions[c.FunctionName()]
	if !ok {
		return v, refuse(e, "the function %s is not allowed, as its worst cost is not known: allowed are operators, macros and %s", symbol(c.FunctionName()), Functions())
	}
	if len(w.GetOverloadIDs(e.ID())) != 1 {
		return v, refuse(e, "the types of what %s is called with must be known", symbol(c.FunctionName()))
	}
	all := c.Args()
	if c.IsMemberFunction() {
		all = append([]ast.Expr{c.Target()}, all...)
	}
	args := make([]value, len(all))
	for i, arg := range all {
		var err error
		if args[i], err = w.node(arg); err != nil {
			return v, err
		}
		v.Cost = v.plus(args[i].Cost)
	}
	s, cost, err := known(w, e, args)
	v.size, v.Cost = s, v.plus(cost)
	return v, err
}

// scalars is the cost of a call whose time does not depend on what it is called with, but for texts: these it reads.
func scalars(_ *walk, call ast.Expr, args []value) (size, Cost, error) {
	cost := Cost{}
	for _, a := range args {
		switch a.kind() {
		case types.ListKind, types.MapKind:
			return size{}, cost, refuse(call, "%s is not allowed for lists and maps", symbol(call.AsCall().FunctionName()))
		case types.StringKind:
			if len(args) == 2 && strings.HasPrefix(call.AsCall().FunctionName(), "get") {
				return size{}, cost, refuse(call, "%s is allowed without a time zone only", call.AsCall().FunctionName())
			}
			// An error quotes it, with up to 10 bytes for each of its own, twice.
			cost = cost.plus(Cost{Steps: 20 * a.most, Bytes: 24 * a.most})
		default:
		}
	}
	return size{}, cost, nil
}

func choose(_ *walk, _ ast.Expr, args []value) (size, Cost, error) {
	return larger(args[1].size, args[2].size), Cost{}, nil
}

// equal compares scalars, texts, and lists of these.
func equal(_ *walk, call ast.Expr, args []value) (size, Cost, error) {
	for _, a := range args {
		if a.kind() == types.MapKind || a.kind() == types.ListKind && a.of != nil && a.of.of != nil {
			return size{}, Cost{}, refuse(call, "only scalars, texts and lists of these can be compared")
		}
	}
	return size{}, comparing(&args[0].size, &args[1].size), nil
}

// order compares scalars and texts.
func order(_ *walk, _ ast.Expr, args []value) (size, Cost, error) {
	return size{}, comparing(&args[0].size, &args[1].size), nil
}

// comparing is the cost of comparing two values.
func comparing(a, b *size) Cost {
	if a.of == nil || b.of == nil {
		return Cost{Steps: min(a.most, b.most) / 4, Bytes: nodeBytes}
	}
	return comparing(a.of, b.of).plus(Cost{2 * elementSteps, 2 * elementBytes}).times(min(a.entries, b.entries))
}

// contained looks for a value in a list, or for a name in a map.
func contained(_ *walk, call ast.Expr, args []value) (size, Cost, error) {
	what, in := &args[0], &args[1]
	if in.kind() == types.MapKind {
		return size{}, reached(what), nil
	}
	if what.of != nil || in.of == nil || in.of.of != nil {
		return size{}, Cost{}, refuse(call, "only scalars and texts can be looked for in a list")
	}
	return size{}, comparing(&what.size, in.of).plus(Cost{elementSteps, elementBytes}).times(in.entries), nil
}

// reached is the cost of looking for a name in a map.
func reached(name *value) Cost { return Cost{Steps: name.most, Bytes: 2*name.most + 2*nodeBytes} }

func index(_ *walk, _ ast.Expr, args []value) (size, Cost, error) {
	of, at := &args[0], &args[1]
	if of.of == nil {
		return size{}, Cost{}, nil
	}
	if of.kind() == types.MapKind {
		return *of.of, reached(at).plus(reading(of.of, of.typ.Parameters()[1].Kind())), nil
	}
	return *of.of, Cost{elementSteps, elementBytes}, nil
}

// sum adds numbers and times, and joins two texts.
func sum(w *walk, call ast.Expr, args []value) (size, Cost, error) {
	if args[0].kind() != types.StringKind {
		return scalars(w, call, args)
	}
	s := size{most: args[0].most + args[1].most, least: args[0].least + args[1].least}
	return s, Cost{s.most, 2 * s.most}, nil
}

func length(_ *walk, _ ast.Expr, args []value) (size, Cost, error) {
	return size{}, Cost{Steps: 2 * args[0].most}, nil
}

// numberText is how long the text of a number, time or duration is at most.
const numberText = 400

func text(_ *walk, call ast.Expr, args []value) (size, Cost, error) {
	switch a := &args[0]; a.kind() {
	case types.StringKind:
		return a.size, Cost{}, nil
	case types.ListKind, types.MapKind:
		return size{}, Cost{}, refuse(call, "string is not allowed for lists and maps")
	default:
		return size{most: numberText}, Cost{numberText, 3 * numberText}, nil
	}
}

// literal reads a text that is written down, and so is known to be right.
func literal(w *walk, call ast.Expr, args []value) (size, Cost, error) {
	if _, written := args[0].literal.(string); !written && args[0].kind() == types.StringKind {
		return size{}, Cost{}, refuse(call, "%s is allowed for a literal only", call.AsCall().FunctionName())
	}
	return scalars(w, call, args)
}
