package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

const callers = 8

// each calls do once for every i below n, from several goroutines at once.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n; i += callers {
				do(i)
			}
		})
	}
	wg.Wait()
}

// atOnce holds a store against the rule that each call is one atomic step.
func atOnce(t *testing.T, fresh func(t *testing.T) Subject) {
	t.Helper()
	t.Run("callers of one spam bucket share its burst", func(t *testing.T) {
		s, tm := fresh(t), terms()
		tm.Spam.Burst = 100
		got := takes(t, s, tm, func(int) string { return "pod" })
		if got != 100 {
			t.Errorf("%d admitted, want the burst of 100", got)
		}
	})
	t.Run("sources and objects share a shared spam bucket's burst", func(t *testing.T) {
		s, tm := fresh(t), terms()
		tm.Spam.Burst, tm.SharedSpam = 100, true
		got := takes(t, s, tm, func(i int) string { return fmt.Sprint("pod-", i%40) })
		if got != 100 {
			t.Errorf("%d admitted, want the burst of 100", got)
		}
	})
	t.Run("sources and objects share a quota's burst", func(t *testing.T) {
		s, tm := fresh(t), terms()
		tm.Quotas = []store.Bucket{bucket("namespace", 100, time.Hour)}
		got := takes(t, s, tm, func(i int) string { return fmt.Sprint("pod-", i%40) })
		if got != 100 {
			t.Errorf("%d admitted, want the burst of 100", got)
		}
	})
	t.Run("each merge counts once", func(t *testing.T) { mergesAtOnce(t, fresh(t)) })
	t.Run("each debt is claimed once", func(t *testing.T) { claimsAtOnce(t, fresh(t)) })
}

// takes sends many CREATEs at once and counts those admitted.
func takes(t *testing.T, s Subject, tm store.Terms, group func(i int) string) int {
	t.Helper()
	admitted := make([]bool, 2000)
	each(len(admitted), func(i int) {
		f := about(fmt.Sprint("e", i), []detail{message(fmt.Sprint(i)), from(group(i))})
		d, err := s.Take(t.Context(), epoch(), f.write(epoch()), tm)
		if err != nil {
			t.Errorf("Take: %v", err)
		}
		admitted[i] = d.Verdict == store.Admit
	})
	return len(slices.DeleteFunc(admitted, func(yes bool) bool { return !yes }))
}

func mergesAtOnce(t *testing.T, s Subject) {
	t.Helper()
	totals := make([]int64, 201)
	each(len(totals), func(i int) {
		d, err := s.Merge(t.Context(), epoch(), about(fmt.Sprint("e", i), nil).write(epoch()), terms())
		if err != nil {
			t.Errorf("Merge: %v", err)
		}
		totals[i] = d.Total // 0 for the one that is admitted
	})
	slices.Sort(totals)
	for i, total := range totals[1:] {
		if want := int64(i + 2); totals[0] != 0 || total != want {
			t.Fatalf("totals %v: want 0 for one admitted, then each from 2 once", totals)
		}
	}
}

func claimsAtOnce(t *testing.T, s Subject) {
	t.Helper()
	const events = 100
	for i := range events {
		for _, name := range []string{"a", "b"} {
			w := about(name, []detail{from(fmt.Sprint(i))}).write(epoch())
			if _, err := s.Merge(t.Context(), epoch(), w, terms()); err != nil {
				t.Fatalf("Merge: %v", err)
			}
		}
	}
	var mu sync.Mutex
	claimed := map[store.Ref]int{}
	each(events, func(int) {
		for _, d := range mustDue(t, s, epoch().Add(time.Minute), 0, 3) {
			mu.Lock()
			claimed[d.Ref]++
			mu.Unlock()
		}
	})
	if len(claimed) != events {
		t.Errorf("%d debts claimed, want %d", len(claimed), events)
	}
	for ref, n := range claimed {
		if n != 1 {
			t.Errorf("%v claimed %d times, want once", ref, n)
		}
	}
}

func mustDue(t testing.TB, s Subject, now time.Time, ahead time.Duration, n int) []store.Debt {
	t.Helper()
	debts, err := s.Due(context.WithoutCancel(t.Context()), now, ahead, n)
	if err != nil {
		t.Errorf("Due: %v", err)
	}
	return debts
}
