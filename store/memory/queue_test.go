package memory

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// pend makes something pending of a new group in a namespace.
func (h *hostile) pend(namespace string) store.Key {
	h.t.Helper()
	w, l := h.write(attack{group: true})
	w.Namespace, w.Group = namespace, store.KeyOf(namespace, fmt.Sprint(h.n))
	for range 2 {
		if w.Name += "-"; !h.send(w, l) {
			h.t.Fatal("full")
		}
	}
	return w.Group
}

// TestClaimsFollowAModel holds claims of random queues, with random groups claimed already, to what the
// contract says: namespaces have their turns, starting after the one served last, and within one the
// most overdue come first.
func TestClaimsFollowAModel(t *testing.T) {
	for seed := range 30 {
		h := newHostile(t, DefaultBytes)
		for range seed {
			h.rng.Uint64()
		}
		served := ""
		taken := map[store.Key]bool{}
		for range 60 {
			h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(4 * time.Second))))
			switch h.rng.IntN(4) {
			case 0:
				h.settle(h.rng.IntN(4), 0, h.anyResult)
				served = h.served()
			default:
				h.pend(fmt.Sprint("ns", h.rng.IntN(7)))
			}
			if h.rng.IntN(3) == 0 {
				taken = map[store.Key]bool{}
				for key := range h.groups {
					taken[key] = h.rng.IntN(3) == 0
				}
			}
			n, ahead := h.rng.IntN(12), time.Duration(h.rng.Int64N(int64(20*time.Second)))
			want := h.model(n, ahead, served, taken)
			writes, err := h.Claim(t.Context(), h.now, ahead, n, func(_ string, group store.Key) bool { return taken[group] })
			if err != nil {
				t.Fatal(err)
			}
			var got []store.Key
			for _, p := range writes {
				if taken[p.Ref.Group] {
					t.Fatalf("seed %d: a group that is claimed is claimed again", seed)
				}
				if len(got) == 0 || got[len(got)-1] != p.Ref.Group {
					got = append(got, p.Ref.Group)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: groups %v, want %v", seed, got, want)
			}
			if len(want) > 0 {
				served = h.groups[want[len(want)-1]].Namespace
			}
			if h.served() != served {
				t.Fatalf("seed %d: the last turn was that of %q, want %q", seed, h.served(), served)
			}
			h.check()
		}
	}
}

// served is the namespace that had its turn last.
func (h *hostile) served() string {
	if h.pending.served == nil {
		return ""
	}
	return h.pending.served.Value.(*namespace).name
}

// model is the slow way to say which groups are next.
func (h *hostile) model(n int, ahead time.Duration, served string, taken map[store.Key]bool) []store.Key {
	by := h.now.Truncate(time.Microsecond).Add(ahead + time.Microsecond - 1).Truncate(time.Microsecond)
	due := map[string][]*entry{}
	for key, e := range h.groups {
		if d := e.Due(); !d.IsZero() && !d.After(by) && !taken[key] {
			due[e.Namespace] = append(due[e.Namespace], e)
		}
	}
	var turns []string
	for turn := h.pending.turns.Front(); turn != nil; turn = turn.Next() {
		turns = append(turns, turn.Value.(*namespace).name)
	}
	if i := slices.Index(turns, served); i >= 0 {
		turns = append(turns[i+1:], turns[:i+1]...)
	}
	for _, all := range due {
		slices.SortFunc(all, func(a, b *entry) int {
			return cmp.Or(a.Due().Compare(b.Due()), slices.Compare(a.key[:], b.key[:]))
		})
	}
	var keys []store.Key
	for more := true; more && len(keys) < n; {
		more = false
		for _, name := range turns {
			if all := due[name]; len(all) > 0 && len(keys) < n {
				keys, due[name], more = append(keys, all[0].key), all[1:], true
			}
		}
	}
	return keys
}

// One namespace may have much pending: another's writes do not wait for it.
func TestNamespacesHaveTheirTurns(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	for range 5000 {
		h.pend("noisy")
	}
	quiet := []store.Key{h.pend("quiet"), h.pend("quiet")}
	claimed := map[store.Key]bool{}
	got := map[string]int{}
	for range 4 {
		writes, err := h.Claim(t.Context(), h.now, time.Hour, 1, func(_ string, group store.Key) bool { return claimed[group] })
		if err != nil || len(writes) != 1 {
			t.Fatalf("%d writes, %v, want one", len(writes), err)
		}
		claimed[writes[0].Ref.Group] = true
		got[writes[0].Namespace]++
	}
	if got["noisy"] != 2 || got["quiet"] != 2 || !claimed[quiet[0]] || !claimed[quiet[1]] {
		t.Errorf("claims %v, want two of each namespace", got)
	}
}

// A claim of a few looks at a few, however much is pending, and changes nothing.
func TestAClaimOfAFewLooksAtAFew(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	for i := range 20_000 {
		h.pend(fmt.Sprint("ns", i%3))
	}
	looked := 0
	busy := func(string, store.Key) bool {
		looked++
		return looked%2 == 0
	}
	writes, err := h.Claim(t.Context(), h.now, time.Hour, 9, busy)
	if err != nil || len(writes) != 9 || looked > 30 {
		t.Errorf("%d writes, %v, by looking at %d groups; want 9 by looking at 18 or nearly", len(writes), err, looked)
	}
	allocated := testing.AllocsPerRun(10, func() {
		if _, err := h.Claim(t.Context(), h.now, time.Hour, 3, nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocated > 100 {
		t.Errorf("%v allocations for a claim of 3, want few", allocated)
	}
	h.check()
}

// A namespace that has its share costs no more, however much of it is pending.
func TestANamespaceThatHasItsShareIsPassedOver(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	for range 20_000 {
		h.pend("noisy")
	}
	quiet, looked := h.pend("quiet"), 0
	writes, err := h.Claim(t.Context(), h.now, time.Hour, 9, func(namespace string, _ store.Key) bool {
		looked++
		return namespace == "noisy"
	})
	if err != nil || len(writes) != 1 || writes[0].Ref.Group != quiet || looked > 1100 {
		t.Errorf("%d writes, %v, by looking at %d groups; want the quiet one by looking at 1,100 at most", len(writes), err, looked)
	}
}

func TestClaimsLookAhead(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	h.pend("default")
	due := h.claim(1, math.MaxInt64)[0].Due
	tests := []struct {
		now   time.Time
		ahead time.Duration
		want  int
	}{
		{due.Add(-time.Microsecond), 0, 0},
		{due.Add(-1), 0, 0},
		{due, 0, 1},
		{due, -time.Hour, 1},
		{due.Add(-2 * time.Microsecond), time.Microsecond, 0},
		{due.Add(-2 * time.Microsecond), time.Microsecond + 1, 1},
		{due.Add(-time.Hour), time.Hour, 1},
		{due.Add(-time.Hour), math.MaxInt64, 1},
		{time.UnixMicro(1), forever, 1},
		{time.UnixMicro(1), forever - time.Microsecond, 1},
	}
	for _, test := range tests {
		writes, err := h.Claim(t.Context(), test.now, test.ahead, 10, nil)
		if err != nil || len(writes) != test.want {
			t.Errorf("%v before it is due, %v ahead: %d writes, %v, want %d", due.Sub(test.now), test.ahead, len(writes), err, test.want)
		}
	}
}

func TestAnOutcomeThatIsNotKnownDoesNoHarm(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	h.pend("default")
	h.pend("default")
	writes := h.claim(2, time.Hour)
	h.settle(2, time.Hour, written)
	unknown := store.PendingWrite{Ref: store.Ref{Group: writes[0].Ref.Group, ID: 99}, Name: "unknown"}
	for range 2 {
		if err := h.Complete(t.Context(), h.now, unknown, store.Outcome{}); err != nil {
			t.Fatal(err)
		}
		h.check()
	}
	h.now = h.now.Add(1000 * time.Hour)
	if err := h.Complete(t.Context(), h.now, writes[0], store.Outcome{Result: store.Failed}); err != nil || len(h.groups) != 1 {
		t.Errorf("%d groups, %v, after an outcome for one of two whose time has passed, want the other", len(h.groups), err)
	}
	h.check()
}

// A namespace of which nothing is pending any more gives its turn to the one after it.
func TestTurnsGoOnWhenANamespaceIsDone(t *testing.T) {
	for done := range 3 {
		h := newHostile(t, DefaultBytes)
		for _, namespace := range []string{"a", "b", "c"} {
			h.pend(namespace)
		}
		var got string
		for i := range 3 {
			p := h.claim(1, time.Hour)[0]
			if got += p.Namespace; i != done {
				continue
			}
			if err := h.Complete(t.Context(), h.now, p, store.Outcome{UID: "uid", ResourceVersion: "1"}); err != nil {
				t.Fatal(err)
			}
		}
		if got != "abc" {
			t.Errorf("turns of %q when number %d is done, want abc", got, done+1)
		}
		h.check()
	}
}
