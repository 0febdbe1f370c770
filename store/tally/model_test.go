package tally_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store/tally"
)

var seeds = flag.Uint64("seeds", 20, "random runs of a test")

// model is what a Book must know of one ID, kept without bounds.
type model struct {
	known, since time.Time
	restored     bool
	total        tally.Counts
	slots        map[int64]tally.Counts
}

func (m *model) tally(now time.Time) tally.Tally {
	const slot = 5 * 60
	first := now.Unix()/slot - 11
	t := tally.Tally{Since: m.since, Total: m.total, HourSince: time.Unix(first*slot, 0).UTC()}
	if m.known.After(t.HourSince) {
		t.HourSince = m.known
	}
	for index, c := range m.slots {
		if index >= first {
			t.LastHour = t.LastHour.Add(c)
		}
	}
	return t
}

// steps drives books and a model with the same random steps, batches that come
// twice among them.
type steps struct {
	*rand.Rand
	now    time.Time
	books  map[string]tally.Book
	models map[tally.ID]*model
	seqs   map[string]uint64
	sent   []tally.Batch
}

func (s *steps) model(id tally.ID) *model {
	if s.models[id] == nil {
		s.models[id] = &model{known: s.now, since: s.now, slots: map[int64]tally.Counts{}}
	}
	return s.models[id]
}

func (s *steps) counts() tally.Counts {
	return tally.Counts{Admitted: s.Int64N(5), Merged: s.Int64N(5), Dropped: s.Int64N(5)}
}

func (s *steps) batch() tally.Batch {
	replica := fmt.Sprint("replica-", s.IntN(4))
	s.seqs[replica]++
	b := tally.Batch{Replica: replica, Seq: s.seqs[replica]}
	for n := range s.IntN(4) {
		e := tally.Entry{ID: id(n), Counts: s.counts()}
		for range s.IntN(40) {
			// Some are frequent, and there are more than there is room for.
			name := int(s.ExpFloat64() * 30)
			e.Offenders = append(e.Offenders, tally.Offender{
				Subject: subject(fmt.Sprintf("%0*d", 20+name%7*40, name)), Merged: s.Int64N(4), Dropped: s.Int64N(4),
			})
		}
		b.Entries = append(b.Entries, e)
		m := s.model(e.ID)
		m.total = m.total.Add(e.Counts)
		m.slots[s.now.Unix()/300] = m.slots[s.now.Unix()/300].Add(e.Counts)
	}
	return b
}

func (s *steps) each(t *testing.T, step func(b tally.Book) error) {
	t.Helper()
	for kind, b := range s.books {
		if err := step(b); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
}

func (s *steps) step(t *testing.T) {
	t.Helper()
	switch n := s.IntN(20); {
	case n < 8:
		b := s.batch()
		s.sent = append(s.sent, b)
		s.each(t, func(book tally.Book) error { return book.Add(t.Context(), s.now, b) })
	case n < 11 && len(s.sent) > 0: // an answer was lost
		b := s.sent[s.IntN(len(s.sent))]
		s.each(t, func(book tally.Book) error { return book.Add(t.Context(), s.now, b) })
	case n < 12:
		who, since, total := id(s.IntN(4)), s.now.Add(-time.Duration(s.IntN(100))*time.Hour), s.counts()
		if m := s.model(who); !m.restored {
			m.restored, m.total = true, m.total.Add(total)
			if since.Before(m.since) {
				m.since = since
			}
		}
		s.each(t, func(book tally.Book) error { return book.Restore(t.Context(), s.now, who, since, total) })
	default:
		s.now = s.now.Add(time.Duration(s.IntN(400)) * time.Second)
	}
}

func (s *steps) check(t *testing.T) {
	t.Helper()
	var ids []tally.ID
	for n := range 5 {
		ids = append(ids, id(n))
	}
	var offenders map[tally.ID][]tally.Offender
	s.each(t, func(book tally.Book) error {
		got, err := book.Read(t.Context(), s.now, ids)
		want, estimates := map[tally.ID]tally.Tally{}, map[tally.ID][]tally.Offender{}
		for id, m := range s.models {
			want[id] = m.tally(s.now)
		}
		for id, tally := range got {
			estimates[id], tally.Offenders = tally.Offenders, nil
			got[id] = tally
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%T\n%+v, want\n%+v", book, got, want)
		}
		if offenders == nil {
			offenders = estimates
		}
		if !reflect.DeepEqual(offenders, estimates) {
			t.Fatalf("books differ in offenders:\n%+v and\n%+v", offenders, estimates)
		}
		return err
	})
}

func TestBooksEqualAModelAndEachOtherOnRandomSteps(t *testing.T) {
	server := standalone(t)
	for seed := range *seeds {
		s := &steps{
			Rand: rand.New(rand.NewPCG(seed, 0)), now: epoch(), models: map[tally.ID]*model{}, seqs: map[string]uint64{},
			books: map[string]tally.Book{
				"Memory": tally.NewMemory(), "Redis": tally.NewPunctualRedis(server, fmt.Sprint("test-", seed, ":")),
			},
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for range 200 {
				s.step(t)
				s.check(t)
			}
		})
	}
}
