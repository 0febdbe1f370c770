package settler_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func TestWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	events := corev1.Resource("events")
	tests := map[string]struct {
		err  error
		want string // what became of the debt, and the results
	}{
		"yes":                                {nil, "[a told] [told]"},
		"the Event is not there":             {apierrors.NewNotFound(events, "a"), "[a gone] [gone]"},
		"the Event would not be valid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "a", field.ErrorList{}), "[a refused] [refused]"},
		"the patch is bad":                   {apierrors.NewBadRequest("no"), "[a refused] [refused]"},
		"the patch is too large":             {apierrors.NewRequestEntityTooLargeError("no"), "[a refused] [refused]"},
		"Events cannot be patched":           {apierrors.NewMethodNotSupported(events, "patch"), "[a refused] [refused]"},
		"a fault":                            {apierrors.NewInternalError(io.EOF), "[a told] [retried told]"},
		"too many requests":                  {apierrors.NewTooManyRequests("no", 1), "[a told] [retried told]"},
		"a timeout":                          {apierrors.NewTimeoutError("no", 1), "[a told] [retried told]"},
		"a conflict":                         {apierrors.NewConflict(events, "a", io.EOF), "[a told] [retried told]"},
		"not allowed yet":                    {apierrors.NewForbidden(events, "a", io.EOF), "[a told] [retried told]"},
		"a credential that has just expired": {apierrors.NewUnauthorized("no"), "[a told] [retried told]"},
		"nothing in time":                    {context.DeadlineExceeded, "[a told] [retried told]"},
		"no connection":                      {fmt.Errorf("dial: %w", io.ErrUnexpectedEOF), "[a told] [retried told]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.account.owed = []store.Debt{debt("a")}
				r.answer = func(n int) error {
					if n == 1 {
						return tt.err
					}
					return nil
				}
				if err := r.run(r.account, time.Second, settler.Options{}); err != nil {
					t.Error(err)
				}
				if got := fmt.Sprint(r.account.came, r.results); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestAWriteIsTriedAgainWithBackoff has the API server fail for a while.
func TestAWriteIsTriedAgainWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed = []store.Debt{debt("a")}
		r.answer = func(n int) error {
			if n <= 14 {
				return apierrors.NewInternalError(io.EOF)
			}
			return nil
		}
		if err := r.run(r.account, time.Hour, settler.Options{}); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(r.account.came); got != "[a told]" {
			t.Errorf("the debt is %s, want told", got)
		}
		var waits []time.Duration
		for i, c := range r.calls {
			if i > 0 {
				waits = append(waits, c.after-r.calls[i-1].after)
			}
		}
		ms := time.Millisecond
		want := []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1280 * ms, 2560 * ms, 5120 * ms,
			10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second}
		if !slices.Equal(waits, want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
	})
}

func TestWritesAreWithinTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const debts, rate = 1000, 100
		for i := range debts {
			r.account.owed = append(r.account.owed, debt(fmt.Sprint(i)))
		}
		if err := r.run(r.account, time.Minute, settler.Options{WritesPerSecond: rate}); err != nil {
			t.Error(err)
		}
		if len(r.account.came) != debts || len(r.calls) != debts {
			t.Errorf("%d debts settled by %d writes, want %d each", len(r.account.came), len(r.calls), debts)
		}
		if r.account.most > 512 {
			t.Errorf("%d debts claimed at the same time, want at most 512", r.account.most)
		}
		for i, c := range r.calls {
			if soonest := time.Duration(i-rate) * time.Second / rate; c.after < soonest {
				t.Fatalf("write %d after %v, not before %v", i, c.after, soonest)
			}
		}
		// A burst, the others at the rate, and a look or two until there is room for more.
		if last, latest := r.calls[debts-1].after, 10*time.Second; last > latest {
			t.Errorf("the last write is after %v, want by %v", last, latest)
		}
	})
}

func TestAStoreThatIsAwayIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed, r.account.mute, r.account.unheard = []store.Debt{debt("a")}, 3, 2
		if err := r.run(r.account, 10*time.Second, settler.Options{Poll: time.Second}); err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(r.did(), r.account.came), "[patch default/a patch default/a patch default/a] [a told]"; got != want {
			t.Errorf("did %s, want %s", got, want)
		}
		if first := r.calls[0].after; first < 3*time.Second {
			t.Errorf("first write after %v, before the store said that it is due", first)
		}
	})
}
