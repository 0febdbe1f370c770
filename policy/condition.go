package policy

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Condition is a compiled condition. Its program is safe for concurrent use.
type Condition struct {
	Name, expression string
	program          cel.Program
}

// The cost budgets of all conditions for one Event, in CEL's units; the API server counts ten for a
// microsecond at worst. If each policy had its own, a tenant could make the webhook too slow to
// answer, with many policies or large Events, and so get past the admin's quotas.
const (
	// clusterBudget is what the API server has for each webhook.
	clusterBudget = celconfig.RuntimeCELCostBudgetMatchConditions
	// ownBudget is for the namespace's own policies.
	ownBudget = clusterBudget / 10
)

// ErrBudget means that the conditions of a policy cost too much on an Event.
var ErrBudget = errors.New("the conditions cost more than the budget for them")

// EvaluationError says why a condition could not be evaluated.
type EvaluationError struct {
	Rule      *Rule
	Condition string
	Err       error
}

// Error implements error.
func (e *EvaluationError) Error() string {
	return fmt.Sprintf("%s: condition %q: %v", e.Rule.Name, e.Condition, e.Err)
}

// Unwrap gives the reason.
func (e *EvaluationError) Unwrap() error { return e.Err }

// holds reports whether all conditions of r hold for what a has. As in the API server under failurePolicy Ignore, one
// that is false settles it; otherwise one that could not be evaluated counts as false, and is reported.
func (r *Rule) holds(ctx context.Context, a *activation, budget *int64) (bool, *EvaluationError) {
	var failed *EvaluationError
	for i := range r.Match.Conditions {
		c := &r.Match.Conditions[i]
		ok, err := c.evaluate(ctx, a, budget)
		switch {
		case err != nil && failed == nil:
			failed = &EvaluationError{Rule: r, Condition: c.Name, Err: err}
		case err == nil && !ok:
			return false, nil
		}
		if errors.Is(err, ErrBudget) {
			break
		}
	}
	return failed == nil, failed
}

// evaluate takes the cost from budget.
func (c *Condition) evaluate(ctx context.Context, a *activation, budget *int64) (bool, error) {
	if *budget <= 0 {
		return false, ErrBudget
	}
	v, details, err := c.program.ContextEval(ctx, a)
	cost := int64(math.MaxInt64)
	if details != nil && details.ActualCost() != nil {
		cost = int64(min(*details.ActualCost(), math.MaxInt64))
	}
	var cancelled interpreter.EvalCancelledError
	if cost > *budget || errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		*budget = 0
		return false, ErrBudget
	}
	*budget -= cost
	return err == nil && v == types.True, err
}
