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

// The costs that all conditions of the cluster, and all of a namespace, may have for one Event, in CEL's units; the API
// server counts ten for a microsecond at worst. If each policy had its own, a tenant could make the webhook too slow to
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

// budget is what is left for the conditions of the cluster, or of a namespace, and the results that it has paid for. Each
// has its own results, so that none pays for the other, and the rules of one do not change what the other can afford.
type budget struct {
	left    int64
	results []result // maxResults at most
}

// maxResults bounds the search for a result, so that it takes no longer than an evaluation, whatever rules a tenant has.
const maxResults = 64

// result is what the evaluation of an expression has returned.
type result struct {
	expression string
	holds      bool
	err        error
}

// holds reports whether all conditions of r hold for what a has. As in the API server under failurePolicy Ignore, one
// that is false settles it; otherwise one that could not be evaluated counts as false, and is reported.
func (r *Rule) holds(ctx context.Context, a *activation, b *budget) (bool, *EvaluationError) {
	var failed *EvaluationError
	for i := range r.Match.Conditions {
		c := &r.Match.Conditions[i]
		ok, err := b.evaluate(ctx, c, a)
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

// evaluate evaluates an expression once, however many rules have it, if it is among the first maxResults of the Event.
func (b *budget) evaluate(ctx context.Context, c *Condition, a *activation) (bool, error) {
	for i := range b.results {
		if known := &b.results[i]; known.expression == c.expression {
			return known.holds, known.err
		}
	}
	if b.left <= 0 {
		return false, ErrBudget
	}
	holds, err := b.pay(ctx, c, a)
	if len(b.results) < maxResults {
		b.results = append(b.results, result{c.expression, holds, err})
	}
	return holds, err
}

// pay evaluates a condition and takes its cost from b.
func (b *budget) pay(ctx context.Context, c *Condition, a *activation) (bool, error) {
	v, details, err := c.program.ContextEval(ctx, a)
	cost := int64(math.MaxInt64)
	if details != nil && details.ActualCost() != nil {
		cost = int64(min(*details.ActualCost(), math.MaxInt64))
	}
	var cancelled interpreter.EvalCancelledError
	if cost > b.left || errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		b.left = 0
		return false, ErrBudget
	}
	b.left -= cost
	return err == nil && v == types.True, err
}
