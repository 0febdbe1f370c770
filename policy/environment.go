package policy

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// The bounds of what a policy may ask, those of its schema.
const (
	maxConditions      = 16
	maxExpressionBytes = 2048
)

// Compiler makes rules from API objects. It checks the schema's bounds again, and expressions; errors name each
// wrong field. It is safe for concurrent use.
type Compiler struct {
	env *cel.Env // nil for an Outliner
}

// Outliner is a Compiler for comparing rules: it does not compile expressions, and its rules cannot match Events.
func Outliner() *Compiler { return &Compiler{} }

// NewCompiler makes a Compiler. It fails only if the program is built from incompatible libraries.
//
// It compiles in the environment in which the API server compiles matchConditions: its libraries, its types and its
// cost limits. Its own matcher cannot be used: it reads `object` and builds its variables anew for each request and
// webhook, while here many policies may look at one Event.
func NewCompiler() (*Compiler, error) {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables()},
		environment.StrictCostOpt,
	)
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	// New expressions keep to what the release before understands too, so that
	// replicas of both agree during an upgrade.
	return &Compiler{env: set.NewExpressionsEnv()}, nil
}

// conditions compiles the conditions of a policy.
func (in *check) conditions(from []v1alpha1.MatchCondition) []Condition {
	at := in.at("match", "conditions")
	if len(from) > maxConditions {
		in.add(field.TooMany(at, len(from), maxConditions))
		return nil
	}
	var out []Condition
	for i, m := range from {
		if m.Name == "" {
			in.add(field.Required(at.Index(i).Child("name"), ""))
		}
		if slices.ContainsFunc(out, func(o Condition) bool { return o.Name == m.Name }) {
			in.add(field.Duplicate(at.Index(i).Child("name"), m.Name))
		}
		program, err := in.compiler.compile(at.Index(i).Child("expression"), m.Expression)
		if err != nil {
			in.add(err)
		}
		out = append(out, Condition{Name: m.Name, expression: unique.Make(m.Expression), program: program})
	}
	return out
}

// compile checks an expression as the API server checks a matchCondition, and beyond that estimates
// what it costs at worst: a policy that can never be evaluated within the limit is refused.
func (c *Compiler) compile(at *field.Path, expression string) (cel.Program, *field.Error) {
	if strings.TrimSpace(expression) == "" {
		return nil, field.Required(at, "")
	}
	if len(expression) > maxExpressionBytes {
		return nil, field.TooLong(at, "", maxExpressionBytes)
	}
	if c.env == nil {
		return nil, nil //nolint:nilnil // of an Outliner
	}
	ast, issues := c.env.Compile(expression)
	if issues.Err() != nil {
		return nil, field.Invalid(at, expression, "compilation failed: "+issues.String())
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, field.Invalid(at, expression, fmt.Sprintf("must evaluate to bool, not to %v", ast.OutputType()))
	}
	cost, err := c.env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: sizes{}})
	if err != nil {
		return nil, field.InternalError(at, err)
	}
	if cost.Max > celconfig.PerCallLimit {
		return nil, field.Invalid(at, expression, fmt.Sprintf("costs too much: %d at worst, and must be at most %d", cost.Max, celconfig.PerCallLimit))
	}
	program, err := c.env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, field.Invalid(at, expression, err.Error())
	}
	return program, nil
}

// sizes estimates the largest variables. For an Event above, the limit at evaluation holds.
type sizes struct{}

var _ checker.CostEstimator = sizes{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	const longestText, mostItems = 4096, 128
	path := n.Path()
	if len(path) == 0 {
		return nil
	}
	switch path[len(path)-1] {
	case "labels", "annotations", "groups", "extra":
		return &checker.SizeEstimate{Max: mostItems}
	}
	return &checker.SizeEstimate{Max: longestText}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
