package fallback_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/fallback"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// shared is a shared store whose answers a test sets.
type shared struct {
	decide func(ctx context.Context) (store.Decision, error)
	local  int
	quotas int // in all local decisions
}

var errUnavailable = errors.New("connection refused")

func (s *shared) Decide(ctx context.Context, _ time.Time, _ store.Write, _ store.Limits) (store.Decision, error) {
	return s.decide(ctx)
}

func (s *shared) DecideLocally(_ store.Write, l store.Limits) store.Decision {
	s.local++
	s.quotas += len(l.Quotas)
	return store.Decision{Verdict: store.Drop}
}

func newStore(s *shared, change func(*fallback.Options)) *fallback.Store {
	o := fallback.Defaults()
	if change != nil {
		change(&o)
	}
	return fallback.New(s, s, o)
}

func TestFallbackByFailureMode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		modes  []store.FailureMode // of each quota
		want   store.Verdict
		local  int
		quotas int // that the local decision used
	}{
		"a local quota":                          {[]store.FailureMode{store.Local}, store.Drop, 1, 1},
		"a local quota, and one that admits all": {[]store.FailureMode{store.AdmitAll, store.Local}, store.Drop, 1, 1},
		"a quota that denies":                    {[]store.FailureMode{store.Local, store.DenyAll}, store.Deny, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shared{decide: func(context.Context) (store.Decision, error) { return store.Decision{}, errUnavailable }}
			var modes []store.FailureMode
			f := newStore(s, func(o *fallback.Options) {
				o.OnFallback = func(_ context.Context, how store.FailureMode) { modes = append(modes, how) }
			})
			var l store.Limits
			for _, how := range tt.modes {
				l.Quotas = append(l.Quotas, store.Bucket{OnFailure: how})
			}
			d, err := f.Decide(t.Context(), time.Now(), store.Write{}, l)
			if err != nil || d.Verdict != tt.want || s.local != tt.local || s.quotas != tt.quotas {
				t.Errorf("decided %v (%v), %d times locally with %d quotas, want %v, %d and %d", d.Verdict, err, s.local, s.quotas, tt.want, tt.local, tt.quotas)
			}
			want := store.Local
			if tt.want == store.Deny {
				want = store.DenyAll
			}
			if len(modes) != 1 || modes[0] != want || tt.want == store.Deny && d.RefusedBy != &l.Quotas[1] {
				t.Errorf("OnFallback got %v, want one %v; refused by %v", modes, want, d.RefusedBy)
			}
		})
	}
}

// TestUnconfirmedDecisionStands checks that an unconfirmed decision is used, and that no store decides after the caller has left.
func TestUnconfirmedDecisionStands(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx    context.Context //nolint:containedctx // the case
		err    error
		stands bool
		local  int
	}{
		"an answer":           {t.Context(), nil, true, 0},
		"not confirmed":       {t.Context(), errors.Join(store.ErrUnconfirmed, context.DeadlineExceeded), true, 0},
		"no answer":           {t.Context(), errUnavailable, false, 1},
		"no turn in time":     {t.Context(), store.ErrBusy, false, 1},
		"the caller has left": {ended, context.Canceled, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shared{decide: func(context.Context) (store.Decision, error) { return store.Decision{Verdict: store.Merge}, tt.err }}
			d, err := newStore(s, nil).Decide(tt.ctx, time.Now(), store.Write{}, store.Limits{})
			if stands := d.Verdict == store.Merge; stands != tt.stands || (err != nil) != (tt.ctx == ended) || s.local != tt.local {
				t.Errorf("decided %v (%v), %d times locally", d.Verdict, err, s.local)
			}
		})
	}
}

func TestDeadlineBoundsHangingStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shared{decide: func(ctx context.Context) (store.Decision, error) {
			<-ctx.Done()
			return store.Decision{}, ctx.Err()
		}}
		f := newStore(s, nil)
		begun := time.Now()
		if _, err := f.Decide(t.Context(), time.Now(), store.Write{}, store.Limits{}); err != nil || s.local != 1 {
			t.Errorf("%d local decisions (%v), want 1", s.local, err)
		}
		if took := time.Since(begun); took != fallback.Defaults().Deadline {
			t.Errorf("a decision took %v, want %v", took, fallback.Defaults().Deadline)
		}
	})
}

func TestUnavailableStoreIsNotCalled(t *testing.T) {
	t.Parallel()
	s := &shared{decide: func(context.Context) (store.Decision, error) {
		t.Error("the store was called")
		return store.Decision{}, nil
	}}
	f := newStore(s, func(o *fallback.Options) { o.Available = func() bool { return false } })
	if _, err := f.Decide(t.Context(), time.Now(), store.Write{}, store.Limits{}); err != nil || s.local != 1 {
		t.Errorf("%d local decisions (%v), want 1", s.local, err)
	}
}
