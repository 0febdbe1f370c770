package admission

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
)

// Decide runs a phase. Until it returns, r is for this call alone. Whatever goes
// wrong in it, a fault of the store or of the code, ends here: the write is
// admitted under the local limit.
func (g *Gate) Decide(ctx context.Context, decide Phase, r *Request) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = g.undecided(ctx, r, fmt.Errorf("panic: %v", p))
		}
		a.Response.UID = r.UID
	}()
	r.decided = Moment{}
	if err := ctx.Err(); err != nil {
		// Nobody waits for the answer any more: nothing must be counted as
		// answered.
		return g.undecided(ctx, r, fmt.Errorf("too late to decide: %w", err))
	}
	a, err := decide(ctx, r)
	if err != nil {
		return g.undecided(ctx, r, err)
	}
	a.Decided = r.decided
	return a
}

// undecided answers a write that could not be decided.
func (g *Gate) undecided(ctx context.Context, r *Request, err error) Answer {
	g.Complaints.Do(func() {
		logr.FromContextOrDiscard(ctx).Error(err, "Event write not decided, admitting under the local limit",
			"namespace", r.Namespace, "operation", r.Operation, "user", r.UserInfo.Username)
	})
	if r.DryRun || g.Local.AllowN(g.Now(), 1) {
		return admit(Undecided)
	}
	return overloaded()
}
