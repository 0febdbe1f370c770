package settler_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func TestOfASharedStoreOnlyWhatIsInHandIsDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed = []store.Debt{debt("a")}
		// It is refused until the drain, at the end of which more is owed.
		r.answer = func(int) error {
			if time.Since(r.began) < time.Minute {
				return errAway
			}
			r.account.owed = []store.Debt{debt("b")}
			return nil
		}
		if err := r.run(r.account, time.Minute, settler.Options{Shared: true}); err != nil {
			t.Error(err)
		}
		if want := []string{"a told"}; !slices.Equal(r.account.came, want) {
			t.Errorf("came %v, want %v", r.account.came, want)
		}
	})
}

func TestOneWhoAbandonsWritesNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed = []store.Debt{debt("a"), debt("b"), debt("c")}
		abandon := make(chan struct{})
		r.answer = func(n int) error {
			if n == 3 {
				close(abandon)
			}
			return errAway // so that all are tried again
		}
		s := settler.New(r.account, r.client.CoreV1(), settler.Options{Abandon: abandon, Workers: 1})
		if err := s.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(r.began); took > time.Second {
			t.Errorf("ended after %v, want at once", took)
		}
		if len(r.calls) != 3 {
			t.Errorf("wrote %v, want 3 writes", r.did())
		}
	})
}
