package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

// gone is a shared store that is away, or not.
type gone struct {
	inheriting
	away bool
}

func (g *gone) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	if g.away {
		return store.Decision{}, errAway
	}
	return g.inheriting.Merge(ctx, now, w, t)
}

func (g *gone) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	if g.away {
		return store.Decision{}, errAway
	}
	return g.inheriting.Take(ctx, now, w, t)
}

func (g *gone) Inherit(ctx context.Context, now time.Time, l store.Legacy) error {
	if g.away {
		return errAway
	}
	return g.inheriting.Inherit(ctx, now, l)
}

// TestPhasesAtDifferentReplicas: similar Events, each phase at any replica, some
// at the same time, the shared store away throughout and then handed over to.
func TestPhasesAtDifferentReplicas(t *testing.T) {
	on := standalone(t)
	for heirName, heir := range map[string]func(*testing.T) storetest.Subject{"memory": newMemory, "redis": on.fresh} {
		for seed := range uint64(10) {
			for _, inFlight := range []int{1, 4} {
				for _, settles := range []bool{false, true} {
					t.Run(fmt.Sprint(heirName, " seed ", seed, ", in flight ", inFlight, ", settling ", settles), func(t *testing.T) {
						crossPhases(t, heir, seed, inFlight, settles)
					})
				}
			}
		}
	}
}

func crossPhases(t *testing.T, heir func(*testing.T) storetest.Subject, seed uint64, inFlight int, settles bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	shared := &gone{inheriting: heir(t).(inheriting), away: true}
	var locals []*store.Memory
	var replicas []*store.Fallback
	for range 2 {
		o := store.DefaultFallbackOptions()
		o.Deadline, o.HandOverDeadline = time.Hour, time.Hour
		o.Failures, o.Share = math.MaxInt32, 2
		local := newMemory(t).(*store.Memory)
		f, err := store.NewFallback(shared, local, o)
		if err != nil {
			t.Fatal(err)
		}
		locals, replicas = append(locals, local), append(replicas, f)
	}
	now := time.Unix(1_700_000_000, 0).UTC()
	stored := map[string]int64{}
	settle := func(s store.Settling) int {
		debts, err := s.Due(t.Context(), now, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range debts {
			_, known := stored[d.Name]
			o := store.Gone
			if known || d.Notice != nil {
				stored[d.Name], o = d.Total, store.Told
			}
			if err := s.Settle(t.Context(), now, d, o); err != nil {
				t.Fatal(err)
			}
		}
		return len(debts)
	}
	terms := store.Terms{
		MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour, FlushInterval: 10 * time.Second, KeepMessages: 5,
		ReservePerReason: 1, OnFailure: store.Local,
		Spam: store.Bucket{Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}, Key: store.KeyOf("spam"), Name: "spam"},
	}
	const events = 134
	var flight []store.Write
	validate := func() {
		i := rng.IntN(len(flight))
		w := flight[i]
		flight = append(flight[:i], flight[i+1:]...)
		d, err := replicas[rng.IntN(2)].Take(t.Context(), now, w, terms)
		if err != nil {
			t.Fatal(err)
		}
		if d.Verdict == store.Admit {
			stored[w.Name] = 1
		}
	}
	for i := range events {
		now = now.Add(50 * time.Millisecond)
		w := store.Write{
			Group: store.KeyOf("g"), Exact: store.KeyOf("exact", fmt.Sprint(i/2)), Similar: store.KeyOf("similar"),
			Message: store.KeyOf("m", fmt.Sprint(i/2)), Namespace: "default", Name: fmt.Sprint("e", i), Count: 1, At: now,
			Text: fmt.Sprint("message ", i/2), Reason: "Failed",
		}
		d, err := replicas[rng.IntN(2)].Merge(t.Context(), now, w, terms)
		if err != nil {
			t.Fatal(err)
		}
		switch d.Verdict {
		case store.Admit:
			flight = append(flight, w)
		case store.Aggregate:
			w.Combined, w.Exact = true, store.KeyOf("exact-combined", fmt.Sprint(i/2))
			flight = append(flight, w)
		case store.Merge, store.Drop, store.Deny:
		}
		for len(flight) >= inFlight {
			validate()
		}
		if settles && i%5 == 0 {
			settle(locals[0])
			settle(locals[1])
		}
	}
	for len(flight) > 0 {
		validate()
	}
	shared.away = false
	now = now.Add(5 * time.Second)
	for range 3 {
		for i, f := range replicas {
			for _, group := range locals[i].Held() {
				if err := f.HandOver(t.Context(), now, group); err != nil {
					t.Fatal(err)
				}
			}
		}
		now = now.Add(40 * time.Second)
	}
	for range 3 {
		now = now.Add(31 * time.Second)
		settle(shared.inheriting)
	}
	var told int64
	for _, n := range stored {
		told += n
	}
	if told != events || len(locals[0].Held())+len(locals[1].Held()) > 0 {
		t.Errorf("%d occurrences are told of %d in %d Events; %d and %d groups are still held", told, events, len(stored), len(locals[0].Held()), len(locals[1].Held()))
	}
}
