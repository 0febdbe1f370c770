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

// costFunc returns the size of the result of a call of an allowed function, and its cost without the arguments.
// It may refuse the call with a reason.
type costFunc func(w *estimator, call ast.Expr, args []value) (size, Cost, error)

// allowedFunctions returns the functions that conditions may call. The cost of others is not bounded.
func allowedFunctions() map[string]costFunc {
	all := map[string]costFunc{
		conditional:             conditionalCost,
		operators.Equals:        equalityCost,
		operators.NotEquals:     equalityCost,
		operators.In:            inCost,
		operators.Index:         indexCost,
		add:                     addCost,
		"size":                  sizeCost,
		"string":                stringCost,
		"contains":              searchCost,
		"startsWith":            searchCost,
		"endsWith":              searchCost,
		"matches":               regexpCost,
		"find":                  regexpCost,
		"charAt":                runesCost,
		"substring":             runesCost,
		"lowerAscii":            runesCost,
		"upperAscii":            runesCost,
		"trim":                  runesCost,
		"indexOf":               indexOfCost,
		"lastIndexOf":           indexOfCost,
		"replace":               replaceCost,
		"split":                 splitCost,
		"join":                  joinCost,
		"timestamp":             literalCost,
		"duration":              literalCost,
		operators.LogicalAnd:    scalarCost,
		operators.LogicalOr:     scalarCost,
		operators.LogicalNot:    scalarCost,
		operators.Negate:        scalarCost,
		operators.Subtract:      scalarCost,
		operators.Multiply:      scalarCost,
		operators.Divide:        scalarCost,
		operators.Modulo:        scalarCost,
		operators.Less:          orderCost,
		operators.LessEquals:    orderCost,
		operators.Greater:       orderCost,
		operators.GreaterEquals: orderCost,
		// Every macro uses it.
		operators.NotStrictlyFalse: scalarCost,
	}
	for _, name := range []string{
		"bool", "int", "uint", "double", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
		"getMilliseconds", "getMinutes", "getMonth", "getSeconds",
	} {
		all[name] = scalarCost
	}
	return all
}

// Functions lists the functions that conditions may call, without operators.
func Functions() string {
	return strings.Join(slices.Sorted(maps.Keys(functionNames())), ", ")
}

func (w *estimator) call(e ast.Expr, v value) (value, error) {
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
		if args[i], err = w.estimateBounded(arg); err != nil {
			return v, err
		}
		v.Cost = v.plus(args[i].Cost)
	}
	s, cost, err := known(w, e, args)
	v.size, v.Cost = s, v.plus(cost)
	return v, err
}

// scalarCost is the cost of a call that takes constant time, except for reading its texts.
func scalarCost(_ *estimator, call ast.Expr, args []value) (size, Cost, error) {
	cost := Cost{}
	for _, a := range args {
		switch a.kind() {
		case types.ListKind, types.MapKind:
			return size{}, cost, refuse(call, "%s is not allowed for lists and maps", symbol(call.AsCall().FunctionName()))
		case types.StringKind:
			if len(args) == 2 && strings.HasPrefix(call.AsCall().FunctionName(), "get") {
				return size{}, cost, refuse(call, "%s is allowed without a time zone only", call.AsCall().FunctionName())
			}
			// An error quotes the text twice, with up to 10 bytes for each byte.
			cost = cost.plus(Cost{Steps: 20 * a.maxBytes, Bytes: 24 * a.maxBytes})
		default:
		}
	}
	return size{}, cost, nil
}

func conditionalCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	return union(args[1].size, args[2].size), Cost{}, nil
}

// equalityCost is the cost of comparing scalars, texts, and lists of these.
func equalityCost(_ *estimator, call ast.Expr, args []value) (size, Cost, error) {
	for _, a := range args {
		if a.kind() == types.MapKind || a.kind() == types.ListKind && a.elem != nil && a.elem.elem != nil {
			return size{}, Cost{}, refuse(call, "only scalars, texts and lists of these can be compared")
		}
	}
	return size{}, compareCost(&args[0].size, &args[1].size), nil
}

// orderCost is the cost of ordering scalars and texts.
func orderCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	return size{}, compareCost(&args[0].size, &args[1].size), nil
}

// compareCost is the cost of comparing two values.
func compareCost(a, b *size) Cost {
	if a.elem == nil || b.elem == nil {
		return Cost{Steps: min(a.maxBytes, b.maxBytes) / 4, Bytes: nodeBytes}
	}
	return compareCost(a.elem, b.elem).plus(Cost{2 * elementSteps, 2 * elementBytes}).times(min(a.entries, b.entries))
}

// inCost is the cost of finding a value in a list, or a name in a map.
func inCost(_ *estimator, call ast.Expr, args []value) (size, Cost, error) {
	what, in := &args[0], &args[1]
	if in.kind() == types.MapKind {
		return size{}, lookupCost(what), nil
	}
	if what.elem != nil || in.elem == nil || in.elem.elem != nil {
		return size{}, Cost{}, refuse(call, "only scalars and texts can be looked for in a list")
	}
	return size{}, compareCost(&what.size, in.elem).plus(Cost{elementSteps, elementBytes}).times(in.entries), nil
}

// lookupCost is the cost of finding a name in a map.
func lookupCost(name *value) Cost {
	return Cost{Steps: name.maxBytes, Bytes: 2*name.maxBytes + 2*nodeBytes}
}

func indexCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	of, at := &args[0], &args[1]
	if of.elem == nil {
		return size{}, Cost{}, nil
	}
	if of.kind() == types.MapKind {
		return *of.elem, lookupCost(at).plus(readCost(of.elem, of.typ.Parameters()[1].Kind())), nil
	}
	return *of.elem, Cost{elementSteps, elementBytes}, nil
}

// addCost is the cost of adding numbers and times, and of joining texts.
func addCost(w *estimator, call ast.Expr, args []value) (size, Cost, error) {
	if args[0].kind() != types.StringKind {
		return scalarCost(w, call, args)
	}
	s := size{maxBytes: args[0].maxBytes + args[1].maxBytes, minBytes: args[0].minBytes + args[1].minBytes}
	return s, Cost{s.maxBytes, 2 * s.maxBytes}, nil
}

func sizeCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	return size{}, Cost{Steps: 2 * args[0].maxBytes}, nil
}

// maxNumberText bounds the text of a number, time or duration.
const maxNumberText = 400

func stringCost(_ *estimator, call ast.Expr, args []value) (size, Cost, error) {
	switch a := &args[0]; a.kind() {
	case types.StringKind:
		return a.size, Cost{}, nil
	case types.ListKind, types.MapKind:
		return size{}, Cost{}, refuse(call, "string is not allowed for lists and maps")
	default:
		return size{maxBytes: maxNumberText}, Cost{maxNumberText, 3 * maxNumberText}, nil
	}
}

// literalCost is the cost of parsing a literal text, which is known to be valid.
func literalCost(w *estimator, call ast.Expr, args []value) (size, Cost, error) {
	if _, written := args[0].literal.(string); !written && args[0].kind() == types.StringKind {
		return size{}, Cost{}, refuse(call, "%s is allowed for a literal only", call.AsCall().FunctionName())
	}
	return scalarCost(w, call, args)
}
