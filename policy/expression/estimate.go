package expression

import (
	"fmt"
	"maps"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// size bounds the size of a value.
type size struct {
	// maxBytes and minBytes bound a text, in bytes.
	maxBytes, minBytes int64
	// entries bounds the number of entries of a list or map. The next fields bound each entry, without the names of a map.
	entries int64
	elem    *size
}

// value is the estimate of a part of an expression.
type value struct {
	size
	Cost

	typ     *types.Type
	literal any // the string or int64 of a literal; nil for other values
}

func (v *value) kind() types.Kind { return v.typ.Kind() }

// refusal tells why an expression is refused, and where.
type refusal struct {
	expr   ast.Expr
	reason string
}

// Error implements error.
func (r *refusal) Error() string { return r.reason }

// estimator estimates a checked expression, from the inside out.
type estimator struct {
	*ast.AST

	variables map[string]*types.Type
	objects   map[string]Object
	locals    map[string]size // sizes of the variables of the enclosing macros
	depth     int64           // number of these variables, including those with the same name
	estimated map[int64]value // estimates of parts, by their ids
	functions map[string]costFunc
	shared    int64 // memory that regular expressions reuse
}

func refuse(e ast.Expr, why string, args ...any) error {
	return &refusal{e, fmt.Sprintf(why, args...)}
}

// estimateBounded estimates an expression whose value is not an object.
func (w *estimator) estimateBounded(e ast.Expr) (value, error) {
	v, err := w.estimate(e)
	if err != nil {
		return v, err
	}
	switch v.kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.TimestampKind, types.DurationKind, types.ListKind, types.MapKind:
	case types.StructKind:
		return v, refuse(e, "an object can only be asked for its fields")
	default:
		return v, refuse(e, "%s is not allowed: only true or false, numbers, texts, times, durations, and lists and maps of these", typeName(v.typ))
	}
	made := v.maxBytes
	if v.elem != nil {
		made = v.entries * headerBytes
	}
	switch {
	case made > MaxResult:
		return v, refuse(e, "its result may have %d bytes, more than the %d that are allowed", made, MaxResult)
	case v.Steps > MaxSteps:
		return v, refuse(e, "it may take %d steps on an Event, more than the %d that are allowed", v.Steps, MaxSteps)
	case v.Bytes+w.shared > MaxBytes:
		return v, refuse(e, "it may take %d bytes of memory on an Event, more than the %d that are allowed", v.Bytes+w.shared, MaxBytes)
	}
	return v, nil
}

// estimate estimates any expression, even an object. It walks each part only once.
func (w *estimator) estimate(e ast.Expr) (value, error) {
	if v, ok := w.estimated[e.ID()]; ok {
		return v, nil
	}
	v, err := w.estimateOnce(e)
	if err == nil {
		w.estimated[e.ID()] = v
	}
	return v, err
}

func (w *estimator) estimateOnce(e ast.Expr) (value, error) {
	v := value{typ: w.GetType(e.ID()), Cost: Cost{nodeSteps, nodeBytes}}
	var err error
	switch e.Kind() {
	case ast.LiteralKind:
		v.setLiteral(e)
	case ast.IdentKind:
		v, err = w.ident(e, v)
	case ast.SelectKind:
		v, err = w.selection(e, v)
	case ast.CallKind:
		v, err = w.call(e, v)
	case ast.ListKind:
		v, err = w.list(e, v)
	case ast.ComprehensionKind:
		v, err = w.comprehension(e, v)
	default:
		err = refuse(e, noObjects)
	}
	return v, err
}

func (v *value) setLiteral(e ast.Expr) {
	switch l := e.AsLiteral().(type) {
	case types.String:
		v.maxBytes, v.minBytes, v.literal = int64(len(l)), int64(len(l)), string(l)
	case types.Int:
		v.literal = int64(l)
	}
}

func (w *estimator) ident(e ast.Expr, v value) (value, error) {
	v.Steps += depthSteps * w.depth
	if s, ok := w.locals[e.AsIdent()]; ok {
		v.size = s
		return v, nil
	}
	if t := w.variables[e.AsIdent()]; t != nil && v.typ.Kind() == types.StructKind {
		return v, nil
	}
	return v, refuse(e, "%q is not a value", e.AsIdent())
}

// selection estimates a field of an object, or an entry of a map.
func (w *estimator) selection(e ast.Expr, v value) (value, error) {
	s := e.AsSelect()
	of, err := w.estimate(s.Operand())
	if err != nil {
		return v, err
	}
	v.Cost = v.plus(of.Cost)
	switch {
	case of.kind() == types.MapKind:
		v.size = *of.elem
	case of.kind() == types.StructKind:
		if _, ok := w.objects[of.typ.TypeName()]; !ok {
			return v, refuse(e, "%q is not a field", s.FieldName())
		}
		v.size = maxSizeOf(v.typ)
	default:
		return v, refuse(e, "%q is not a field", s.FieldName())
	}
	v.Cost = v.plus(readCost(&v.size, v.typ.Kind()))
	if s.IsTestOnly() {
		if of.kind() == types.StructKind && w.objects[of.typ.TypeName()][s.FieldName()].typ.Kind() == types.BoolKind {
			return v, refuse(e, "has() says nothing of %q, which is true or false", s.FieldName())
		}
		v.size = size{}
	}
	return v, nil
}

// readCost returns the cost of checking that a value can be read: a text, the texts of a list, or the names of a map.
func readCost(s *size, kind types.Kind) Cost {
	c := Cost{Steps: s.maxBytes, Bytes: nodeBytes} // for an error
	switch kind {
	case types.ListKind:
		c = c.plus(Cost{elementSteps + s.elem.maxBytes, 0}.times(s.entries), Cost{Bytes: elementBytes})
	case types.MapKind:
		c = c.plus(Cost{elementSteps + MaxName, 0}.times(s.entries), Cost{Bytes: elementBytes})
	default:
	}
	return c
}

// maxSizeOf returns the size of the largest readable value of a type.
func maxSizeOf(t *types.Type) size {
	switch t.Kind() {
	case types.StringKind:
		return size{maxBytes: MaxText}
	case types.ListKind:
		of := maxSizeOf(t.Parameters()[0])
		return size{entries: MaxListEntries, elem: &of}
	case types.MapKind:
		of := maxSizeOf(t.Parameters()[1])
		return size{entries: MaxListEntries, elem: &of}
	default:
		return size{}
	}
}

// list estimates a list literal.
func (w *estimator) list(e ast.Expr, v value) (value, error) {
	v.elem = &size{}
	for i, one := range e.AsList().Elements() {
		of, err := w.estimateBounded(one)
		switch {
		case err != nil:
			return v, err
		case of.kind() == types.MapKind:
			return v, refuse(one, "a list of maps is not allowed")
		case i == 0:
			*v.elem = of.size
		}
		*v.elem = union(*v.elem, of.size)
		v.entries++
		v.Cost = v.plus(of.Cost, Cost{elementSteps, elementBytes})
	}
	if len(e.AsList().OptionalIndices()) > 0 {
		return v, refuse(e, "optional values are not allowed")
	}
	return v, nil
}

// union returns a bound of both values.
func union(a, b size) size {
	s := size{maxBytes: max(a.maxBytes, b.maxBytes), minBytes: min(a.minBytes, b.minBytes), entries: max(a.entries, b.entries), elem: a.elem}
	switch {
	case a.elem == nil:
		s.elem = b.elem
	case b.elem != nil:
		of := union(*a.elem, *b.elem)
		s.elem = &of
	}
	return s
}

// comprehension estimates the expansion of all, exists, exists_one, filter or map: a loop over a list, or over the names of a map.
// It accumulates a bool, a number, or a list that grows by at most one element in each round.
func (w *estimator) comprehension(e ast.Expr, v value) (value, error) {
	c := e.AsComprehension()
	if c.HasIterVar2() {
		return v, refuse(e, "macros of two variables are not allowed")
	}
	over, err := w.estimateBounded(c.IterRange())
	if err != nil {
		return v, err
	}
	first, err := w.estimateBounded(c.AccuInit())
	if err != nil {
		return v, err
	}
	element, sorted := size{maxBytes: MaxName}, int64(0)
	switch {
	case over.kind() == types.ListKind && over.elem != nil:
		element = *over.elem
	case over.kind() == types.MapKind && !readsVariable(c.LoopStep(), c.IterVar()): // the number of names may be unknown
		return v, refuse(e, "a macro for a map must read %q", c.IterVar())
	case over.kind() == types.MapKind:
		sorted = over.entries * 10 * nodeSteps
	case over.kind() != types.ListKind:
		return v, refuse(e, "a macro is allowed for a list or a map")
	}
	accumulated := size{}
	defer w.bind(c.IterVar(), element)()
	step := c.LoopStep()
	if first.kind() == types.ListKind {
		grown, ok := w.appended(step, c.AccuVar())
		if !ok || first.entries > 0 {
			return v, refuse(e, "only the macros all, exists, exists_one, filter and map are allowed")
		}
		of, err := w.estimateBounded(grown)
		if err != nil {
			return v, err
		}
		accumulated = size{entries: over.entries, elem: &of.size}
	}
	defer w.bind(c.AccuVar(), accumulated)()
	round, err := w.roundCost(c)
	if err != nil {
		return v, err
	}
	rounds := max(over.entries, 1)
	v.Cost = v.plus(over.Cost, first.Cost, Cost{macroSteps + sorted, macroBytes}, round.times(rounds))
	result, err := w.estimateBounded(c.Result())
	if err != nil {
		return v, err
	}
	v.Cost, v.size = v.plus(result.Cost), result.size
	return v, nil
}

// readsVariable reports whether an expression reads a variable anywhere.
func readsVariable(e ast.Expr, variable string) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return found
}

// roundCost returns the cost of one round of a loop.
func (w *estimator) roundCost(c ast.ComprehensionExpr) (Cost, error) {
	goesOn, err := w.estimateBounded(c.LoopCondition())
	if err != nil {
		return Cost{}, err
	}
	step, err := w.stepCost(c.LoopStep(), c.AccuVar())
	return step.plus(goesOn.Cost, Cost{roundSteps, roundBytes}), err
}

// stepCost returns the cost of a step. A step that adds to a list does so in place.
func (w *estimator) stepCost(step ast.Expr, accumulator string) (Cost, error) {
	grown, ok := w.appended(step, accumulator)
	if !ok || w.GetType(step.ID()).Kind() != types.ListKind {
		v, err := w.estimateBounded(step)
		return v.Cost, err
	}
	v, err := w.estimateBounded(grown)
	cost := v.plus(Cost{2*elementSteps + 4*nodeSteps, 4*elementBytes + 2*nodeBytes})
	if call := step.AsCall(); err == nil && call.FunctionName() == conditional {
		var holds value
		holds, err = w.estimateBounded(call.Args()[0])
		cost = cost.plus(holds.Cost)
	}
	return cost, err
}

// appended returns the element that a step appends to the accumulator, always or under a condition: accumulator + [element].
func (w *estimator) appended(step ast.Expr, accumulator string) (ast.Expr, bool) {
	isAccumulator := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == accumulator }
	if step.Kind() != ast.CallKind {
		return nil, false
	}
	call := step.AsCall()
	if call.FunctionName() == conditional && len(call.Args()) == 3 && isAccumulator(call.Args()[2]) {
		step = call.Args()[1]
		if step.Kind() != ast.CallKind {
			return nil, false
		}
		call = step.AsCall()
	}
	if call.FunctionName() != add || !isAccumulator(call.Args()[0]) || call.Args()[1].Kind() != ast.ListKind {
		return nil, false
	}
	elements := call.Args()[1].AsList().Elements()
	if len(elements) != 1 {
		return nil, false
	}
	return elements[0], true
}

// bind sets the size of a variable until restore is called.
func (w *estimator) bind(name string, s size) (restore func()) {
	before := w.locals
	w.locals = maps.Clone(before)
	w.locals[name] = s
	w.depth++
	return func() { w.locals, w.depth = before, w.depth-1 }
}
