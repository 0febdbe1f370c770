package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/store"
)

// scripted is a shared store that does as it is told.
type scripted struct {
	calls   int
	heirs   []store.Legacy
	mu      sync.Mutex
	answers func(ctx context.Context) error
}

func (s *scripted) set(answers func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

func (s *scripted) call() func(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.answers
}

func (s *scripted) Merge(ctx context.Context, _ time.Time, _ store.Write, _ store.Terms) (store.Decision, error) {
	return store.Decision{Verdict: store.Merge, Into: "shared", Total: 2}, s.call()(ctx)
}

func (s *scripted) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	return s.Merge(ctx, now, w, t)
}

func (s *scripted) Inherit(ctx context.Context, _ time.Time, l store.Legacy) error {
	err := s.call()(ctx)
	if err == nil {
		s.heirs = append(s.heirs, l)
	}
	return err
}

func well(context.Context) error { return nil }
func ill(context.Context) error  { return errAway }

// fallbackRig is a Fallback over a scripted store, and what its hooks were told.
type fallbackRig struct {
	*store.Fallback
	t       *testing.T
	shared  *scripted
	local   *store.Memory
	changes []string
	decided []store.Failure
	handed  []error
	n       int
	last    store.Write
	terms   store.Terms
}

func newFallbackRig(t *testing.T, set func(*store.FallbackOptions)) *fallbackRig {
	t.Helper()
	r := &fallbackRig{t: t, shared: &scripted{answers: well}, local: newMemory(t).(*store.Memory)}
	o := store.DefaultFallbackOptions()
	o.OnChange = func(open bool, err error) { r.changes = append(r.changes, fmt.Sprint(open, " ", err)) }
	o.Decided = func(_ context.Context, how store.Failure) { r.decided = append(r.decided, how) }
	o.HandedOver = func(err error) { r.handed = append(r.handed, err) }
	if set != nil {
		set(&o)
	}
	f, err := store.NewFallback(r.shared, r.local, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Fallback = f
	return r
}

// write sends a CREATE of a new name through the mutating phase. It returns the
// answer in a word and how long it took.
func (r *fallbackRig) write(how store.Failure) (string, time.Duration) {
	r.t.Helper()
	r.n++
	w := store.Write{
		Group: store.KeyOf("pod"), Exact: store.KeyOf("exact"), Similar: store.KeyOf("similar"), Message: store.KeyOf("m"),
		Namespace: "default", Name: fmt.Sprint("e", r.n), Count: 1, Reason: "Failed",
	}
	t := store.Terms{
		MaxEvents: 10, Window: time.Minute, RepeatWindow: time.Hour, FlushInterval: 10 * time.Second, OnFailure: how,
		Spam: store.Bucket{Limit: store.Limit{Burst: 25, Every: time.Minute}},
	}
	r.last, r.terms = w, t
	start := time.Now()
	d, err := r.Merge(r.t.Context(), start, w, t)
	if err != nil {
		return err.Error(), time.Since(start)
	}
	return fmt.Sprint(d.Verdict, " ", d.Into), time.Since(start)
}

// breakIt makes the shared store fail until the breaker is open, and returns how
// many calls that took.
func (r *fallbackRig) breakIt(answers func(context.Context) error) int {
	r.t.Helper()
	r.shared.set(answers)
	before := r.shared.calls
	for range 100 {
		if r.write(store.AdmitAll); len(r.changes) > 0 {
			return r.shared.calls - before
		}
	}
	r.t.Fatal("the breaker stays closed after 100 failing calls")
	return 0
}

func (r *fallbackRig) wants(what string, got, want any) {
	r.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestFallback(t *testing.T) {
	tests := map[string]func(t *testing.T){
		"a store that never answers is waited for until the deadline, and after ten calls not at all": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			stop := make(chan struct{})
			defer close(stop)
			r.shared.set(func(context.Context) error { <-stop; return nil }) // whatever its context says
			for i := range 30 {
				_, took := r.write(store.Local)
				want := 50 * time.Millisecond
				if i >= 10 {
					want = 0
				}
				if took > want {
					t.Errorf("call %d took %v, want %v at most", i, took, want)
				}
			}
			synctest.Wait()
			r.wants("calls of the shared store", r.shared.calls <= 10, true)
		},
		"the breaker opens within ten failing calls and then keeps calls away": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.wants("calls until it opens", r.breakIt(ill) <= 10, true)
			before := r.shared.calls
			r.write(store.Local)
			r.wants("calls while it is open", r.shared.calls-before, 0)
		},
		"a store that fails half of the time is kept away": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.breakIt(func(context.Context) error {
				if r.shared.calls%2 == 0 {
					return errAway
				}
				return nil
			})
		},
		"the breaker closes by itself, and says so once": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.breakIt(ill)
			for range 5 { // probes that fail
				<-time.After(1100 * time.Millisecond) // by the clock of the test
				r.write(store.Local)
			}
			r.shared.set(well)
			<-time.After(1100 * time.Millisecond) // by the clock of the test
			for range 3 {
				got, _ := r.write(store.Local)
				r.wants("answer", got, "merge shared")
			}
			r.wants("changes", r.changes, []string{"true shared store is away", "false <nil>"})
		},
		"who decides without the shared store is up to the write": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.shared.set(ill)
			var got []string
			for _, how := range []store.Failure{store.DenyAll, store.AdmitAll, store.Local, store.Local} {
				word, _ := r.write(how)
				got = append(got, word)
			}
			r.wants("answers", got, []string{"deny ", "admit ", "admit ", "merge e3"})
			r.wants("decided", r.decided, []store.Failure{store.DenyAll, store.AdmitAll, store.Local, store.Local})
		},
		"a store that is full answers": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.shared.set(func(context.Context) error { return fmt.Errorf("redis: %w", store.ErrFull) })
			for range 50 {
				r.write(store.Local)
			}
			r.wants("calls", r.shared.calls, 50)
			r.wants("changes", len(r.changes), 0)
			r.wants("decided", len(r.decided), 50)
		},
		"a caller that has gone gets no decision, and is no news of the store": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.shared.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 50 {
				if _, err := r.Take(ctx, time.Now(), store.Write{}, store.Terms{}); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v, want the caller's", err)
				}
			}
			synctest.Wait()
			r.wants("changes", len(r.changes), 0)
			r.wants("decided", len(r.decided), 0)
		},
		"calls that never end do not pile up": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, func(o *store.FallbackOptions) { o.MaxCalls, o.Failures, o.Share = 3, 1000, 2 })
			stop := make(chan struct{})
			defer close(stop)
			r.shared.set(func(context.Context) error { <-stop; return nil })
			for range 10 {
				r.write(store.Local)
			}
			synctest.Wait()
			r.wants("calls", r.shared.calls, 3)
			r.wants("decided", len(r.decided), 10)
		},
		"a panic of the shared store is a failure": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			r.shared.set(func(context.Context) error { panic("bug") })
			got, _ := r.write(store.Local)
			r.wants("answer", got, "admit ")
		},
		"what was decided here is handed over when the store is back": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { r.Run(ctx); close(done) }()
			r.breakIt(ill)
			for range 3 {
				r.write(store.Local)
			}
			r.wants("groups held", len(r.local.Held()), 1)
			<-time.After(5 * time.Second) // by the clock of the test
			synctest.Wait()
			r.shared.set(well)
			<-time.After(5 * time.Second) // by the clock of the test
			synctest.Wait()
			r.wants("groups held", len(r.local.Held()), 0)
			r.wants("handed over", len(r.shared.heirs), 1)
			r.write(store.Local)
			r.wants("changes", len(r.changes), 2)
			cancel()
			<-done
		},
		"what did not arrive is the Memory's again when all ends": func(t *testing.T) {
			t.Helper()
			r := newFallbackRig(t, func(o *store.FallbackOptions) { o.Failures, o.Share = 1000, 2 })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			r.shared.set(ill)
			r.write(store.Local)
			if _, err := r.Take(ctx, time.Now(), r.last, r.terms); err != nil {
				t.Error(err)
			}
			r.write(store.Local)
			r.write(store.Local)
			go func() { r.Run(ctx); close(done) }()
			<-time.After(10 * time.Second) // by the clock of the test
			synctest.Wait()
			r.wants("groups held", len(r.local.Held()), 0)
			r.wants("handed over", slices.Contains(r.handed, nil), false)
			cancel()
			<-done
			debts, err := r.local.Due(t.Context(), time.Now(), time.Hour, 9)
			if err != nil || len(debts) != 1 || debts[0].Total != 3 {
				t.Errorf("debts %v, %v; want one of 3", debts, err)
			}
		},
	}
	for says, test := range tests {
		t.Run(says, func(t *testing.T) { synctest.Test(t, test) })
	}
}
