package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/busiest"
)

// TestARunEndsWhenItsContextDoes cancels runs. TestMain checks that no goroutine is left.
func TestARunEndsWhenItsContextDoes(t *testing.T) {
	var log strings.Builder
	for i := range 3000 {
		name := fmt.Sprint("e", i)
		log.WriteString(text(request("create", name, 201, sec(i), event(name, name, sec(i)))))
	}
	trace := readAll(t, log.String())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var decided int64
	o := defaults(nil)
	o.Progress = func(n int64) {
		if decided += n; decided == 1000 {
			cancel()
		}
	}
	if r, err := trace.Run(ctx, o); r != nil || !errors.Is(err, context.Canceled) || decided != 1000 {
		t.Errorf("%v, %v after %d writes, want %v after 1000", r, err, decided, context.Canceled)
	}
}

// TestAllWritesAreRanked checks that rankings count all writes, also in a partial batch.
func TestAllWritesAreRanked(t *testing.T) {
	for _, n := range []int{1, rankedWrites - 1, rankedWrites, rankedWrites + 1, 10 * rankedWrites} {
		var log strings.Builder
		for i := range n {
			name := fmt.Sprint("e", i)
			log.WriteString(text(request("create", name, 201, sec(i), event(name, name, sec(i)))))
		}
		r, _ := runTrace(t, readAll(t, log.String()), defaults(nil))
		for by, ranking := range r.Busiest {
			if got := ranking.Total.Matched(); got != int64(n) {
				t.Errorf("%d writes by %s, want %d", got, by, n)
			}
		}
		if len(r.Busiest) != len(busiest.Dimensions()) {
			t.Errorf("%d rankings, want %d", len(r.Busiest), len(busiest.Dimensions()))
		}
	}
}
