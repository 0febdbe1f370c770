package settler_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// TestTheLagIsTheTimeFromWhenADebtFellDue holds that it is told once for each
// debt that was told, with the time that retries took.
func TestTheLagIsTheTimeFromWhenADebtFellDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		due := func(ago time.Duration) func(*store.Debt) {
			return func(d *store.Debt) { d.Due = time.Now().Add(-ago) }
		}
		r.account.owed = []store.Debt{debt("late", due(3*time.Second)), debt("early", due(-time.Hour)), debt("gone", due(time.Hour))}
		r.answer = func(n int) error {
			if r.calls[n-1].says == "patch default/gone" {
				return apierrors.NewNotFound(corev1.Resource("events"), "gone")
			}
			return nil
		}
		var mu sync.Mutex
		var lags []time.Duration
		err := r.run(r.account, time.Second, settler.Options{Workers: 1, Lag: func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			lags = append(lags, d)
		}})
		if err != nil {
			t.Error(err)
		}
		slices.Sort(lags)
		for i := range lags {
			lags[i] = lags[i].Truncate(time.Second) // the queue waits a little
		}
		if got := fmt.Sprint(lags); got != "[0s 3s]" {
			t.Errorf("lags %s, want [0s 3s]", got)
		}
	})
}

func TestTheLagHasTheTimeThatRetriesTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed = []store.Debt{debt("a", func(d *store.Debt) { d.Due = time.Now() })}
		r.answer = func(n int) error {
			if n <= 10 {
				return apierrors.NewInternalError(errAway)
			}
			return nil
		}
		var lags []time.Duration
		if err := r.run(r.account, time.Minute, settler.Options{Lag: func(d time.Duration) { lags = append(lags, d) }}); err != nil {
			t.Error(err)
		}
		// Ten retries, each after twice the time, from 5 ms.
		if len(lags) != 1 || lags[0] < 5*time.Second {
			t.Errorf("lags %v, want one of more than 5 s", lags)
		}
	})
}
