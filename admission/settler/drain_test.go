package settler_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func TestADrainFailsWhenSomethingIsStillOwed(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	tests := map[string]struct {
		breaks func(*rig)
		o      settler.Options
		want   string
	}{
		"the API server stays away": {
			func(r *rig) { r.answer = func(int) error { return down } },
			settler.Options{},
			"2 or more stored Events are still owed counts after a drain of 15s",
		},
		"the API server stays away, and the drain is short": {
			func(r *rig) { r.answer = func(int) error { return down } },
			settler.Options{DrainTimeout: time.Second},
			"2 or more stored Events are still owed counts after a drain of 1s",
		},
		"the store stays away": {
			func(r *rig) { r.account.mute = 1 << 20 },
			settler.Options{},
			"1 or more stored Events are still owed counts after a drain of 15s",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.account.owed = []store.Debt{debt("a"), debt("b")}
				tt.breaks(r)
				err := r.run(r.account, time.Minute, tt.o)
				if err == nil || err.Error() != tt.want {
					t.Errorf("error %v, want %s", err, tt.want)
				}
				drain := tt.o.DrainTimeout
				if drain == 0 {
					drain = 15 * time.Second
				}
				if took := time.Since(r.began); took != time.Minute+drain {
					t.Errorf("ended after %v, want %v", took, time.Minute+drain)
				}
			})
		})
	}
}

// TestWhatIsOwedAgainWhileItIsSettledIsNotLost holds that a debt is settled
// anew when the store hands it out again before it has answered.
func TestWhatIsOwedAgainWhileItIsSettledIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed, r.account.more = []store.Debt{debt("a")}, 2
		if err := r.run(r.account, 100*time.Millisecond, settler.Options{}); err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(r.did(), r.account.came), "[patch default/a patch default/a patch default/a] [a told a told a told]"; got != want {
			t.Errorf("did %s, want %s", got, want)
		}
	})
}
