package serve

import (
	"context"
	"errors"
	"testing"
)

func TestTogetherOneThatFailsEndsTheOthers(t *testing.T) {
	broken := errors.New("broken")
	ended := false
	err := together{
		settles(func(context.Context) error { return broken }),
		settles(func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil }),
	}.Run(t.Context())
	if !errors.Is(err, broken) || !ended {
		t.Errorf("ended %t with %v, want true with the error of the first", ended, err)
	}
}

// settles is a function that is an elect.Runner.
type settles func(ctx context.Context) error

// Run implements elect.Runner.
func (f settles) Run(ctx context.Context) error { return f(ctx) }
