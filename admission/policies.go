package admission

import (
	"cmp"
	"context"

	"github.com/eventquota/eventquota/policy"
)

// Policies says what applies to a request. Implementations are safe for
// concurrent use and do not block.
type Policies interface {
	For(ctx context.Context, r *Request) policy.Governing
}

// Static is Policies with one policy for all.
type Static policy.Policy

// Current is Policies by the set that it returns, which is never nil.
type Current func() *policy.Set

var (
	_ Policies = (*Static)(nil)
	_ Policies = Current(nil)
)

// For implements Policies.
func (s *Static) For(context.Context, *Request) policy.Governing {
	p := (*policy.Policy)(s)
	return policy.Governing{Policy: p, OnStoreFailure: cmp.Or(p.OnStoreFailure, policy.FailureLocal)}
}

// For implements Policies.
func (c Current) For(ctx context.Context, r *Request) policy.Governing {
	return c().For(ctx, r.Namespace, r.Object, &r.Request)
}
