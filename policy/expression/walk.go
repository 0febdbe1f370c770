package expression

import (
	"fmt"
	"maps"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// size is a bound of a value.
type size struct {
	// most and least are of a text, in bytes.
	most, least int64
	// entries are of a list or map, and of is the size of each, but for the names of a map.
	entries int64
	of      *size
}

// value is what is known of a part of an expression.
type value struct {
	size
	Cost

	typ     *types.Type
	literal any // of a literal: a string, int64, or nil for others
}

func (v *value) kind() types.Kind { return v.typ.Kind() }

// refusal is why an expression is refused, and where.
type refusal struct {
	at  ast.Expr
	why string
}

// Error implements error.
func (r *refusal) Error() string { return r.why }

// walk goes through a checked expression, from the inside out.
type walk struct {
	*ast.AST

	variables map[string]*types.Type
	objects   map[string]Object
	local     map[string]size // of the variables of the macros around
	depth     int64           // how many there are, also of one name
	known     map[int64]value // of the parts that have been walked, by their ids
	functions map[string]function
	shared    int64 // the memory that regular expressions use one after the other
}

func refuse(e ast.Expr, why string, args ...any) error {
	return &refusal{e, fmt.Sprintf(why, args...)}
}

// node is what is known of an expression whose value is no object.
func (w *walk) node(e ast.Expr) (value, error) {
	v, err := w.any(e)
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
	made := v.most
	if v.of != nil {
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

// any is what is known of any expression, an object too. It walks each part once, however often it is asked.
func (w *walk) any(e ast.Expr) (value, error) {
	if v, ok := w.known[e.ID()]; ok {
		return v, nil
	}
	v, err := w.first(e)
	if err == nil {
		w.known[e.ID()] = v
	}
	return v, err
}

func (w *walk) first(e ast.Expr) (value, error) {
	v := value{typ: w.GetType(e.ID()), Cost: Cost{nodeSteps, nodeBytes}}
	var err error
	switch e.Kind() {
	case ast.LiteralKind:
		v.setLiteral(e)
	case ast.IdentKind:
		v, err = w.ident(e, v)
	case ast.SelectKind:
		v, err = w.selected(e, v)
	case ast.CallKind:
		v, err = w.call(e, v)
	case ast.ListKind:
		v, err = w.list(e, v)
	case ast.ComprehensionKind:
		v, err = w.macro(e, v)
	default:
		err = refuse(e, noObjects)
	}
	return v, err
}

func (v *value) setLiteral(e ast.Expr) {
	switch l := e.AsLiteral().(type) {
	case types.String:
		v.most, v.least, v.literal = int64(len(l)), int64(len(l)), string(l)
	case types.Int:
		v.literal = int64(l)
	}
}

func (w *walk) ident(e ast.Expr, v value) (value, error) {
	v.Steps += depthSteps * w.depth
	if s, ok := w.local[e.AsIdent()]; ok {
		v.size = s
		return v, nil
	}
	if t := w.variables[e.AsIdent()]; t != nil && v.typ.Kind() == types.StructKind {
		return v, nil
	}
	return v, refuse(e, "%q is not a value", e.AsIdent())
}

// selected is a field of an object, or an entry of a map.
func (w *walk) selected(e ast.Expr, v value) (value, error) {
	s := e.AsSelect()
	of, err := w.any(s.Operand())
	if err != nil {
		return v, err
	}
	v.Cost = v.plus(of.Cost)
	switch {
	case of.kind() == types.MapKind:
		v.size = *of.of
	case of.kind() == types.StructKind:
		if _, ok := w.objects[of.typ.TypeName()]; !ok {
			return v, refuse(e, "%q is not a field", s.FieldName())
		}
		v.size = sizeOf(v.typ)
	default:
		return v, refuse(e, "%q is not a field", s.FieldName())
	}
	v.Cost = v.plus(reading(&v.size, v.typ.Kind()))
	if s.IsTestOnly() {
		if of.kind() == types.StructKind && w.objects[of.typ.TypeName()][s.FieldName()].typ.Kind() == types.BoolKind {
			return v, refuse(e, "has() says nothing of %q, which is true or false", s.FieldName())
		}
		v.size = size{}
	}
	return v, nil
}

// reading is what it costs to check that a value can be read: a text, the texts of a list, or the names of a map.
func reading(s *size, kind types.Kind) Cost {
	c := Cost{Steps: s.most, Bytes: nodeBytes} // of an error
	switch kind {
	case types.ListKind:
		c = c.plus(Cost{elementSteps + s.of.most, 0}.times(s.entries), Cost{Bytes: elementBytes})
	case types.MapKind:
		c = c.plus(Cost{elementSteps + MaxName, 0}.times(s.entries), Cost{Bytes: elementBytes})
	default:
	}
	return c
}

// sizeOf is that of the largest value of a type that can be read.
func sizeOf(t *types.Type) size {
	switch t.Kind() {
	case types.StringKind:
		return size{most: MaxText}
	case types.ListKind:
		of := sizeOf(t.Parameters()[0])
		return size{entries: MaxEntries, of: &of}
	case types.MapKind:
		of := sizeOf(t.Parameters()[1])
		return size{entries: MaxEntries, of: &of}
	default:
		return size{}
	}
}

// list is a list that is written down.
func (w *walk) list(e ast.Expr, v value) (value, error) {
	v.of = &size{}
	for i, one := range e.AsList().Elements() {
		of, err := w.node(one)
		switch {
		case err != nil:
			return v, err
		case of.kind() == types.MapKind:
			return v, refuse(one, "a list of maps is not allowed")
		case i == 0:
			*v.of = of.size
		}
		*v.of = larger(*v.of, of.size)
		v.entries++
		v.Cost = v.plus(of.Cost, Cost{elementSteps, elementBytes})
	}
	if len(e.AsList().OptionalIndices()) > 0 {
		return v, refuse(e, "optional values are not allowed")
	}
	return v, nil
}

// larger is a bound of two values.
func larger(a, b size) size {
	s := size{most: max(a.most, b.most), least: min(a.least, b.least), entries: max(a.entries, b.entries), of: a.of}
	switch {
	case a.of == nil:
		s.of = b.of
	case b.of != nil:
		of := larger(*a.of, *b.of)
		s.of = &of
	}
	return s
}

// macro is what has become of all, exists, exists_one, filter or map: a loop over a list, or over the names of a map.
// What it accumulates is a bool, a number, or a list that grows by one element a round at most.
func (w *walk) macro(e ast.Expr, v value) (value, error) {
	c := e.AsComprehension()
	if c.HasIterVar2() {
		return v, refuse(e, "macros of two variables are not allowed")
	}
	over, err := w.node(c.IterRange())
	if err != nil {
		return v, err
	}
	first, err := w.node(c.AccuInit())
	if err != nil {
		return v, err
	}
	element, sorted := size{most: MaxName}, int64(0)
	switch {
	case over.kind() == types.ListKind && over.of != nil:
		element = *over.of
	case over.kind() == types.MapKind && !reads(c.LoopStep(), c.IterVar()): // it could not tell how many there are
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
		grown, ok := w.grows(step, c.AccuVar())
		if !ok || first.entries > 0 {
			return v, refuse(e, "only the macros all, exists, exists_one, filter and map are allowed")
		}
		of, err := w.node(grown)
		if err != nil {
			return v, err
		}
		accumulated = size{entries: over.entries, of: &of.size}
	}
	defer w.bind(c.AccuVar(), accumulated)()
	round, err := w.round(c)
	if err != nil {
		return v, err
	}
	rounds := max(over.entries, 1)
	v.Cost = v.plus(over.Cost, first.Cost, Cost{macroSteps + sorted, macroBytes}, round.times(rounds))
	result, err := w.node(c.Result())
	if err != nil {
		return v, err
	}
	v.Cost, v.size = v.plus(result.Cost), result.size
	return v, nil
}

// reads reports whether an expression reads a variable somewhere.
func reads(e ast.Expr, variable string) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return found
}

// round is what one round of a loop costs.
func (w *walk) round(c ast.ComprehensionExpr) (Cost, error) {
	goesOn, err := w.node(c.LoopCondition())
	if err != nil {
		return Cost{}, err
	}
	step, err := w.loopStep(c.LoopStep(), c.AccuVar())
	return step.plus(goesOn.Cost, Cost{roundSteps, roundBytes}), err
}

// loopStep is the cost of a step. Where it adds to a list, that is done in place.
func (w *walk) loopStep(step ast.Expr, accumulator string) (Cost, error) {
	grown, ok := w.grows(step, accumulator)
	if !ok || w.GetType(step.ID()).Kind() != types.ListKind {
		v, err := w.node(step)
		return v.Cost, err
	}
	v, err := w.node(grown)
	cost := v.plus(Cost{2*elementSteps + 4*nodeSteps, 4*elementBytes + 2*nodeBytes})
	if call := step.AsCall(); err == nil && call.FunctionName() == conditional {
		var holds value
		holds, err = w.node(call.Args()[0])
		cost = cost.plus(holds.Cost)
	}
	return cost, err
}

// grows is what a step adds to the accumulator: accumulator + [it], where the step does so under a condition or always.
func (w *walk) grows(step ast.Expr, accumulator string) (ast.Expr, bool) {
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

// bind gives a variable a size until it is restored.
func (w *walk) bind(name string, s size) (restore func()) {
	before := w.local
	w.local = maps.Clone(before)
	w.local[name] = s
	w.depth++
	return func() { w.local, w.depth = before, w.depth-1 }
}
