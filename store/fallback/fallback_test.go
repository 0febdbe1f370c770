package fallback_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/fallback"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shared is a shared store that answers as a test says.
type shared struct {
	decide func(ctx context.Context) (store.Decision, error)
	local  int
	quotas int // in all that was decided locally
	reach  func() error
}

var errAway = errors.New("connection refused")

func (s *shared) Decide(ctx context.Context, _ time.Time, _ store.Write, _ store.Limits) (store.Decision, error) {
	return s.decide(ctx)
}

func (s *shared) DecideLocally(_ store.Write, l store.Limits) store.Decision {
	s.local++
	s.quotas += len(l.Quotas)
	return store.Decision{Verdict: store.Drop}
}

func (s *shared) Reach(context.Context) error { return s.reach() }

// failures in a row open the breaker.
const failures = 5

func newStore(s *shared, change func(*fallback.Options)) *fallback.Store {
	o := fallback.Defaults()
	if change != nil {
		change(&o)
	}
	return fallback.New(s, s, o)
}

func TestWhatDecidesWithoutTheSharedStore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		how   []store.Failure // of each quota
		want  store.Verdict
		local int
		asked int // quotas, by the replica itself
	}{
		"the replica itself":                 {[]store.Failure{store.Local}, store.Drop, 1, 1},
		"the replica, without a quota":       {[]store.Failure{store.AdmitAll, store.Local}, store.Drop, 1, 1},
		"a quota that denies, it is refused": {[]store.Failure{store.Local, store.DenyAll}, store.Deny, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shared{decide: func(context.Context) (store.Decision, error) { return store.Decision{}, errAway }}
			var counted []store.Failure
			f := newStore(s, func(o *fallback.Options) {
				o.Decided = func(_ context.Context, how store.Failure) { counted = append(counted, how) }
			})
			var l store.Limits
			for _, how := range tt.how {
				l.Quotas = append(l.Quotas, store.Bucket{OnFailure: how})
			}
			d, err := f.Decide(t.Context(), time.Now(), store.Write{}, l)
			if err != nil || d.Verdict != tt.want || s.local != tt.local || s.quotas != tt.asked {
				t.Errorf("decided %v (%v), %d times locally by %d quotas, want %v, %d and %d", d.Verdict, err, s.local, s.quotas, tt.want, tt.local, tt.asked)
			}
			want := store.Local
			if tt.want == store.Deny {
				want = store.DenyAll
			}
			if len(counted) != 1 || counted[0] != want || tt.want == store.Deny && d.Empty != &l.Quotas[1] {
				t.Errorf("counted %v, want one %v; refused by %v", counted, want, d.Empty)
			}
		})
	}
}

// What is not confirmed stands, and counts as a failure. A lost race and a caller that has gone are none.
func TestWhatCountsAsAFailure(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx   context.Context //nolint:containedctx // the case
		err   error
		local int
		opens bool
	}{
		"not confirmed":       {t.Context(), errors.Join(store.ErrUnconfirmed, context.DeadlineExceeded), 0, true},
		"no answer":           {t.Context(), errAway, failures, true},
		"no turn in time":     {t.Context(), store.ErrCrowded, failures, false},
		"the caller has left": {gone, context.Canceled, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shared{decide: func(context.Context) (store.Decision, error) { return store.Decision{Verdict: store.Merge}, tt.err }}
			opened := false
			f := newStore(s, func(o *fallback.Options) { o.OnChange = func(open bool, _ error) { opened = open } })
			for range failures {
				d, err := f.Decide(tt.ctx, time.Now(), store.Write{}, store.Limits{})
				if stands := d.Verdict == store.Merge; stands != errors.Is(tt.err, store.ErrUnconfirmed) || (err != nil) != (tt.ctx == gone) {
					t.Errorf("decided %v (%v)", d.Verdict, err)
				}
			}
			if opened != tt.opens || f.Available() == tt.opens || s.local != tt.local {
				t.Errorf("open %t, available %t, decided %d times locally; want open %t and %d", opened, f.Available(), s.local, tt.opens, tt.local)
			}
		})
	}
}

func TestAHangingStoreHoldsNobodyUpForLongerThanTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shared{decide: func(ctx context.Context) (store.Decision, error) {
			<-ctx.Done()
			return store.Decision{}, ctx.Err()
		}}
		f := newStore(s, nil)
		begun := time.Now()
		for range 20 {
			if _, err := f.Decide(t.Context(), time.Now(), store.Write{}, store.Limits{}); err != nil {
				t.Error(err)
			}
		}
		if took, most := time.Since(begun), failures*fallback.Defaults().Deadline; took > most || s.local != 20 {
			t.Errorf("20 decisions took %v, %d of them locally; want %v at most, and all", took, s.local, most)
		}
	})
}

func TestItIsKnownThatTheStoreIsBackAlthoughNothingIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, open atomic.Bool
		away.Store(true)
		s := &shared{
			decide: func(context.Context) (store.Decision, error) { return store.Decision{}, errAway },
			reach: func() error {
				if away.Load() {
					return errAway
				}
				return nil
			},
		}
		f := newStore(s, func(o *fallback.Options) { o.OnChange = func(now bool, _ error) { open.Store(now) } })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.Run(ctx); close(done) }()
		for range failures {
			_, _ = f.Decide(t.Context(), time.Now(), store.Write{}, store.Limits{})
		}
		s.decide = func(context.Context) (store.Decision, error) {
			return store.Decision{Verdict: store.Drop, Unasked: true}, nil
		}
		for range 600 {
			<-time.After(time.Second / 10)
			if d, err := f.Decide(t.Context(), time.Now(), store.Write{}, store.Limits{}); err != nil || d.Verdict != store.Drop {
				t.Errorf("decided %v (%v), want a drop", d.Verdict, err)
			}
		}
		if !open.Load() {
			t.Error("the breaker has closed while the store was unavailable")
		}
		away.Store(false)
		<-time.After(time.Minute)
		if open.Load() || !f.Available() {
			t.Errorf("open %t, available %t a minute after the store was back", open.Load(), f.Available())
		}
		stop()
		<-done
	})
}
