// Package expression compiles the conditions of rules: CEL expressions whose maximum cost, in time and in memory, is known
// before they run, whatever they read. The library's own estimate does not bound memory. So an expression may only call the
// functions in a list here, and the cost and the size of the result of each part are bounded.
//
// The values that an expression reads are bounded too. A value beyond the bounds is unknown, and an expression whose result
// depends on it has no result.
package expression

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// MaxSteps bounds the steps of one expression.
	MaxSteps = 5_000_000
	// MaxBytes bounds the memory of one expression.
	MaxBytes = 4 << 20
	// MaxResult bounds the result of each part of an expression, in bytes: a text, or the headers of a list.
	MaxResult = 64 << 10
)

// Compiler compiles expressions. It is safe for concurrent use.
type Compiler struct {
	env       *cel.Env
	variables map[string]*types.Type
	objects   map[string]Object
	functions map[string]costFunc
}

// NewCompiler returns a Compiler for variables, given by their types' names, and for object types. It fails only if the program is
// built from incompatible libraries.
//
// Functions have the same names and results as in the API server.
func NewCompiler(variables map[string]string, objects map[string]Object) (*Compiler, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	c := &Compiler{variables: map[string]*types.Type{}, objects: objects, functions: allowedFunctions()}
	options := []cel.EnvOption{
		cel.HomogeneousAggregateLiterals(), cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true),
		cel.EnableHiddenAccumulatorName(true),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(), cel.ValidateHomogeneousAggregateLiterals(),
		),
		ext.Strings(ext.StringsVersion(2)), library.Regex(),
		cel.CustomTypeAdapter(registry), cel.CustomTypeProvider(&provider{registry, objects}),
	}
	for name, typ := range variables {
		c.variables[name] = cel.ObjectType(typ)
		options = append(options, cel.Variable(name, c.variables[name]))
	}
	c.env, err = cel.NewEnv(options...)
	return c, err
}

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	Text string
	// Cost bounds an evaluation, and Shared the memory that evaluations reuse.
	Cost    Cost
	Shared  int64
	program cel.Program
}

// Compile compiles an expression. The error tells what is wrong, where, and what is allowed.
func (c *Compiler) Compile(text string) (*Expression, error) {
	checked, err := c.check(text)
	if err != nil {
		return nil, err
	}
	w := estimator{
		AST: checked.NativeRep(), variables: c.variables, objects: c.objects, functions: c.functions,
		locals: map[string]size{}, estimated: map[int64]value{}, shared: sharedBytes,
	}
	v, err := w.estimateBounded(w.Expr())
	if refused, ok := errors.AsType[*refusal](err); ok {
		at := namePosition(text, w.SourceInfo().GetStartLocation(refused.expr.ID()), refused.expr)
		return nil, fmt.Errorf("%s%w", positionText(text, at), err)
	}
	program, err := c.env.Program(checked, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	return &Expression{Text: text, Cost: v.Cost, Shared: w.shared, program: program}, nil
}

// check parses an expression and checks its types.
func (c *Compiler) check(text string) (*cel.Ast, error) {
	parsed, issues := c.env.Parse(text)
	if issues.Err() != nil {
		return nil, c.parseError(text, issues.Errors())
	}
	checked, issues := c.env.Check(parsed)
	if issues.Err() != nil {
		return nil, c.checkError(text, parsed.NativeRep(), issues.Errors())
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		is, what := typeName(checked.OutputType()), "it"
		if is == objectText {
			what = "one of its fields"
		}
		return nil, fmt.Errorf("must be true or false, and is %s: compare %s, as in event.reason == 'BackOff'", is, what)
	}
	return checked, nil
}

// Evaluate reports whether an expression holds. An error means that this is unknown, because a value is unknown or the expression
// fails for it.
func (e *Expression) Evaluate(variables interpreter.Activation) (bool, error) {
	v, _, err := e.program.Eval(variables)
	return err == nil && v == types.True, err
}

// provider knows the types of variables.
type provider struct {
	types.Provider

	objects map[string]Object
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	o, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldNames(name)
	}
	all := make([]string, 0, len(o))
	for field := range o {
		all = append(all, field)
	}
	return all, true
}

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	f, ok := p.objects[name][field]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	return &types.FieldType{Type: f.typ, IsSet: f.has, GetFrom: f.get}, true
}
