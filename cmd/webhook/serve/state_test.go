package serve

import (
	"context"
	"errors"
	"testing"
)

func TestRunAllStopsOnFailure(t *testing.T) {
	broken := errors.New("broken")
	ended := false
	err := runAll(
		func(context.Context) error { return broken },
		func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil },
	)(t.Context())
	if !errors.Is(err, broken) || !ended {
		t.Errorf("the second task ended: %t, want true; error %v, want that of the first", ended, err)
	}
}
