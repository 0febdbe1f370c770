package settler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/admission/settler"
)

// TestACountThatIsClaimedLongIsStillWrittenOnce has the API server fail for
// longer than a claim lasts, so that the store hands the debt out again.
func TestACountThatIsClaimedLongIsStillWrittenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		m := newMemory(t)
		r.answer = func(int) error {
			if time.Since(r.began) < 2*time.Minute {
				return apierrors.NewServiceUnavailable("not yet")
			}
			return nil
		}
		wait := r.start(t, m, 5*time.Minute, settler.Options{})
		merge(t, m, 60, "a")
		wait()
		told := 0
		for _, result := range r.results {
			if result == settler.Told {
				told++
			}
		}
		last := r.calls[len(r.calls)-1]
		if told != 1 || last.after > 2*time.Minute+flush || !strings.HasPrefix(last.body, `{"count":60,`) {
			t.Errorf("told %d times, last after %v: %s", told, last.after, last.body)
		}
	})
}

// TestAClaimThatRunsOutCostsNoWrite has more to settle than the rate allows
// while a claim lasts. What the store hands out again stands in line already.
func TestAClaimThatRunsOutCostsNoWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		m := newMemory(t)
		const early, late, rate = 400, 100, 5
		names := make([]string, early+late)
		for i := range names {
			names[i] = fmt.Sprintf("e%03d-", i)
		}
		wait := r.start(t, m, 5*time.Minute, settler.Options{WritesPerSecond: rate})
		merge(t, m, 2, names[:early]...)
		<-time.After(40 * time.Second)
		merge(t, m, 2, names[early:]...)
		wait()
		latest := 15*time.Second + (early+late)*time.Second/rate
		if last := r.calls[len(r.calls)-1].after; len(r.calls) != early+late || last > latest {
			t.Errorf("%d writes until %v, want %d by %v", len(r.calls), last, early+late, latest)
		}
	})
}
