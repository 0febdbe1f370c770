package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// takeOver does with a refusal what Redis does.
func (g *group) takeOver(f refusal, t Terms) {
	told := make([]int64, len(f.names))
	for i, n := range f.names {
		told[i] = g.told(n.name).count
	}
	var news []Write
	for i, n := range f.names {
		g.remember(nameCount{name: n.name, count: max(told[i], n.count)})
		news = append(news, Write{Reason: n.reason, Count: max(0, n.count-told[i])})
	}
	for _, m := range f.more {
		news = append(news, Write{Reason: m.What, Count: m.Count})
	}
	for _, w := range news {
		g.lose(epoch(), w.Reason, w.Count, t.FlushInterval, t.Window)
	}
}

// However many names there are, and however often they are handed over: a notice
// tells of everything, and of no more than if Redis had refused it one by one.
func TestRefusalsLoseNothing(t *testing.T) {
	for _, names := range []int{1, 20, 250, 300, 1000, 20_000} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(names, " names, seed ", seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 0))
				var due dueQueue
				var id uint64
				single, joint := &group{due: &due, nextID: &id}, &group{due: &due, nextID: &id}
				r := newRefusing()
				counts := make([]int64, names)
				for range 5000 {
					i := rng.IntN(names)
					if rng.IntN(2) == 0 {
						i = min(i, rng.IntN(names)/10)
					}
					counts[i] += rng.Int64N(3)
					if counts[i] == 0 {
						counts[i] = 1
					}
					w := refusedWrite("pod", fmt.Sprint(i), fmt.Sprint("Reason", i%3), counts[i])
					if !r.drop(w) {
						t.Fatal("not refused")
					}
					single.drop(epoch(), w, r.terms)
					if joint.meet(w); rng.IntN(1000) == 0 {
						r.handOverTo(t, joint)
					}
				}
				r.handOverTo(t, joint)
				var want int64
				for _, n := range counts {
					want += n
				}
				got, most := joint.records[0].total, single.records[0].total
				if got < want || got > most || names <= maxNames && got != want {
					t.Errorf("the notice tells of %d, want %d and at most %d", got, want, most)
				}
				if len(joint.records[0].notice.Reasons) != min(3, names) {
					t.Errorf("reasons %v", joint.records[0].notice.Reasons)
				}
			})
		}
	}
}

// Names that come after many others are told as Redis would tell them.
func TestRefusalsOfManyNames(t *testing.T) {
	tests := []struct {
		says          string
		rounds, names int // of new names between those of one that comes again and again
		want          int64
	}{
		{"a name that keeps coming is told once", 10, 100, 300 + 10*100 + 10},
		{"a name that was not heard of for long is told anew", 3, 300, 300 + 3*300 + 1 + 2 + 3},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			var due dueQueue
			var id uint64
			g := &group{due: &due, nextID: &id}
			r := newRefusing()
			serial := 0
			drop := func(n int) {
				for range n {
					serial++
					r.drop(refusedWrite("pod", fmt.Sprint(serial), "Failed", 1))
				}
			}
			drop(300)
			for round := range test.rounds {
				w := refusedWrite("pod", "again", "Failed", int64(round+1))
				g.meet(w)
				r.drop(w)
				drop(test.names)
			}
			r.handOverTo(t, g)
			if got := g.records[0].total; got != test.want {
				t.Errorf("the notice tells of %d, want %d", got, test.want)
			}
		})
	}
}

func (r *refusing) handOverTo(t *testing.T, g *group) {
	t.Helper()
	if err := r.handOver(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.got {
		if len(f.names) > 2*maxNames {
			t.Errorf("%d names in one refusal", len(f.names))
		}
		g.takeOver(f, r.terms)
	}
	r.got = nil
}

func TestRunHandsOverUntilTheEnd(t *testing.T) {
	var got atomic.Int64
	r := newRefuser(nil, func(_ context.Context, list []refusal) error {
		for _, f := range list {
			for _, n := range f.names {
				got.Add(n.count)
			}
			for _, m := range f.more {
				got.Add(m.Count)
			}
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running, writers sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	terms := spamTerms(0, 0, time.Minute)
	var refused atomic.Int64
	for i := range 16 {
		writers.Go(func() {
			for n := range 5000 {
				w := refusedWrite(fmt.Sprint(n%7), fmt.Sprint(i, n), "Failed", 1)
				r.learn(time.Now(), w, terms, forever, time.Time{})
				if _, ok := r.refuse(time.Now(), w, terms); ok {
					refused.Add(1)
				}
				if i == 0 && n == 2500 {
					stop()
				}
			}
		})
	}
	writers.Wait()
	running.Wait()
	if got.Load() != refused.Load() || got.Load() == 0 {
		t.Errorf("%d were handed over of %d that were refused", got.Load(), refused.Load())
	}
	if _, ok := r.refuse(time.Now(), refusedWrite("0", "x", "Failed", 1), terms); ok {
		t.Error("refused after the end, when nobody hands it over")
	}
}
