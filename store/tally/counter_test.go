package tally_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/tally"
)

// flaky is a Book that fails as a test says, and keeps what it was given.
type flaky struct {
	tally.Book
	before, after func() error // Add is carried out; nil is never

	mu      sync.Mutex
	batches []tally.Batch
}

func (f *flaky) Add(ctx context.Context, now time.Time, b tally.Batch) error {
	f.mu.Lock()
	f.batches = append(f.batches, b)
	f.mu.Unlock()
	if f.before != nil {
		if err := f.before(); err != nil {
			return err
		}
	}
	err := f.Book.Add(ctx, now, b)
	if f.after != nil {
		err = errors.Join(err, f.after())
	}
	return err
}

func everyThird(n *atomic.Int64) func() error {
	return func() error {
		if n.Add(1)%3 == 0 {
			return errLost
		}
		return nil
	}
}

func flush(t *testing.T, c *tally.Counter) {
	t.Helper()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsLostOrCountedTwice(t *testing.T) {
	const replicas, writers, each, ids = 3, 4, 3000, 7 // each writer counts so often for each ID
	verdicts := []store.Verdict{store.Admit, store.Aggregate, store.Merge, store.Drop, store.Deny}
	for kind, book := range books(t) {
		t.Run(kind, func(t *testing.T) {
			var all, flushers sync.WaitGroup
			var counted atomic.Bool
			for range replicas {
				lossy := &flaky{Book: book, before: everyThird(new(atomic.Int64)), after: everyThird(new(atomic.Int64))}
				c := tally.NewCounter(lossy, tally.At(epoch()))
				for w := range writers {
					all.Go(func() {
						for i := range each * ids {
							s := subject(fmt.Sprint("pod-", w, "-", i%100))
							c.Count(id(i%ids), verdicts[i%len(verdicts)], &s)
						}
					})
				}
				flushers.Go(func() {
					for last := false; !last; {
						last = counted.Load()
						for c.Flush(t.Context()) != nil {
							runtime.Gosched()
						}
					}
				})
			}
			all.Wait()
			counted.Store(true)
			flushers.Wait()
			p := &page{T: t, book: book, now: epoch()}
			const fifth = replicas * writers * each / 5
			want := tally.Counts{Admitted: 2 * fifth, Merged: fifth, Dropped: 2 * fifth}
			for n := range ids {
				if got := p.read(n); got.Total != want || got.LastHour != want {
					t.Errorf("%+v and %+v in the last hour, want %+v", got.Total, got.LastHour, want)
				}
			}
		})
	}
}

func TestABatchStaysTheSameUntilItIsTaken(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	book := &flaky{Book: tally.NewMemory(), before: func() error {
		if fail.Load() {
			return errLost
		}
		return nil
	}}
	c, s := tally.NewCounter(book, tally.At(epoch())), subject("a")
	c.Count(id(1), store.Drop, &s)
	for range 3 {
		if err := c.Flush(t.Context()); !errors.Is(err, errLost) {
			t.Fatalf("%v, want the Book's error", err)
		}
		c.Count(id(1), store.Drop, &s)
	}
	fail.Store(false)
	flush(t, c)
	flush(t, c) // of nothing
	var said []string
	for _, b := range book.batches {
		said = append(said, fmt.Sprint(b.Seq, ":", b.Entries[0].Dropped, ",", b.Entries[0].Offenders[0].Dropped))
	}
	if want := "1:1,1 1:1,1 1:1,1 1:1,1 2:3,3"; strings.Join(said, " ") != want {
		t.Errorf("batches %s, want %s", said, want)
	}
}

func TestRunFlushesFromTimeToTimeAndAtTheEnd(t *testing.T) {
	taken := make(chan struct{}, 100)
	book := &flaky{Book: tally.NewMemory(), after: func() error {
		taken <- struct{}{}
		return nil
	}}
	c, s := tally.NewCounter(book, tally.FlushEvery(time.Millisecond), tally.At(epoch())), subject("a")
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { c.Run(ctx) })
	for range 3 {
		c.Count(id(1), store.Merge, &s)
		<-taken
	}
	stop()
	run.Wait()

	c = tally.NewCounter(book, tally.FlushEvery(time.Hour), tally.At(epoch()))
	c.Count(id(1), store.Merge, &s)
	c.Run(ctx)
	p := &page{T: t, book: book, now: epoch()}
	p.wantTotal(tally.Counts{Merged: 4})
}

func TestACounterIsBoundedBetweenTwoFlushes(t *testing.T) {
	book := &flaky{Book: tally.NewMemory()}
	c := tally.NewCounter(book, tally.At(epoch()))
	for range 2 {
		for n := range tally.MaxIDs + 100 {
			s := subject(fmt.Sprint(n))
			c.Count(id(n), store.Drop, &s)
			c.Count(id(0), store.Drop, &s)
		}
		flush(t, c)
	}
	if c.Missed() != 200 {
		t.Errorf("%d were missed, want 200", c.Missed())
	}
	for _, b := range book.batches {
		offenders, refused := 0, int64(0)
		for _, e := range b.Entries {
			offenders += len(e.Offenders)
			refused += e.Dropped
			if len(e.Offenders) > tally.MaxTracked {
				t.Fatalf("%d offenders of one ID", len(e.Offenders))
			}
		}
		if len(b.Entries) != tally.MaxIDs || offenders != 1<<14 || refused != 2*tally.MaxIDs+100 {
			t.Errorf("%d IDs, %d offenders and %d refusals", len(b.Entries), offenders, refused)
		}
	}
}

// Texts of a request are parts of its body, which must go when it is answered.
func TestACounterKeepsNoPartOfASubject(t *testing.T) {
	book := &flaky{Book: tally.NewMemory()}
	c := tally.NewCounter(book)
	s := tally.Subject{Object: store.Object{Kind: strings.Repeat("世", 1000), Name: strings.Repeat("n", 10)}}
	c.Count(id(1), store.Drop, &s)
	c.Count(id(1), store.Drop, nil)
	flush(t, c)
	e := book.batches[0].Entries[0]
	kept := e.Offenders[0].Subject
	if e.Dropped != 2 || len(e.Offenders) != 1 || kept.Kind != strings.Repeat("世", 84) || kept.Name != s.Name {
		t.Errorf("%+v, want two drops and one clipped offender", e)
	}
	if unsafe.StringData(kept.Kind) == unsafe.StringData(s.Kind) || unsafe.StringData(kept.Name) == unsafe.StringData(s.Name) {
		t.Error("a text shares memory with that of the request")
	}
}

// traffic is random refusals of a few heavy offenders among many others, most of
// them in bursts that come in the worst order: one by one.
func traffic(seed uint64, count func(name string)) map[string]int64 {
	rng, truth := rand.New(rand.NewPCG(seed, 0)), map[string]int64{}
	for i := range 20000 {
		name := fmt.Sprint("other-", i)
		switch n := rng.IntN(100); {
		case n < 20:
			name = "heaviest"
		case n < 44:
			name = fmt.Sprint("heavy-", n%3)
		case n < 70:
			name = fmt.Sprint("medium-", rng.IntN(300))
		}
		truth[name]++
		count(name)
	}
	return truth
}

// The error that is stated: 3 of 64 of the hour's refusals, a 64th by the Counter
// and a 32nd by the Book.
func TestTopOffendersAreRightAmongManyMore(t *testing.T) {
	for kind, book := range books(t) {
		for seed := range 3 {
			t.Run(fmt.Sprint(kind, ", seed ", seed), func(t *testing.T) {
				p := &page{T: t, book: book, now: epoch()}
				c := tally.NewCounter(book, tally.At(p.now))
				n := int64(0)
				truth := traffic(uint64(seed), func(name string) {
					s := subject(name)
					c.Count(id(seed), store.Merge+store.Verdict(n%2), &s)
					if n++; n%700 == 0 {
						flush(t, c)
					}
				})
				flush(t, c)
				names := []string{}
				for _, o := range p.read(seed).Offenders {
					names = append(names, o.Subject.Name)
					refused, really := o.Merged+o.Dropped, truth[o.Subject.Name]
					if refused > really || refused < really-n*3/64 {
						t.Errorf("%s: %d, want %d, or less by %d at the most", o.Subject.Name, refused, really, n*3/64)
					}
				}
				if len(names) != tally.MaxOffenders {
					t.Fatalf("%d offenders, want %d", len(names), tally.MaxOffenders)
				}
				slices.Sort(names[1:4])
				if fmt.Sprint(names[:4]) != "[heaviest heavy-0 heavy-1 heavy-2]" {
					t.Errorf("%s, want the heaviest, the three heavy ones and another", names)
				}
			})
		}
	}
}

func TestCountingWhatIsKnownAllocatesNothing(t *testing.T) {
	c, s := tally.NewCounter(tally.NewMemory()), subject("a")
	for _, v := range []store.Verdict{store.Admit, store.Drop} {
		if n := testing.AllocsPerRun(100, func() { c.Count(id1, v, &s) }); n != 0 {
			t.Errorf("%v: %v allocations", v, n)
		}
	}
}

var id1 = id(1)
