package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// world is a simulated cluster. All that is going on at once are flights, of
// which one at a time moves on, so that every order of steps comes about.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	faults   Faults
	subject  Subject
	now      time.Time
	terms    store.Terms
	stored   map[string]*event // at the API server, by name
	lost     []*event          // deleted from there
	accounts map[string]*account
	clients  []*client
	flights  []flight
	draining bool
	claims   int
}

// flight is a request or a settlement on its way. It must have moved to its
// end at a time.
type flight struct {
	next stage
	by   time.Time
}

// stage is one step of a flight. It returns the next one, or nil at the end.
type stage func() stage

func newWorld(t *testing.T, f Faults, rng *rand.Rand, subject Subject) *world {
	t.Helper()
	w := &world{
		t: t, rng: rng, faults: f, subject: subject, now: epoch(),
		stored: map[string]*event{}, accounts: map[string]*account{},
	}
	w.terms = store.Terms{
		MaxEvents:        1 + rng.IntN(5),
		Window:           time.Duration(1+rng.IntN(10)) * time.Minute,
		RepeatWindow:     time.Duration(1+rng.IntN(30)) * time.Minute,
		FlushInterval:    time.Duration(8+rng.IntN(10)) * time.Second,
		KeepMessages:     rng.IntN(4),
		Spam:             bucket("spam filter", 1+rng.IntN(30), 5*time.Hour), // what nobody uses for so long is forgotten
		ReservePerReason: rng.IntN(2),
		ChargeMerged:     rng.IntN(4) == 0,
	}
	w.terms.SharedSpam = w.terms.Spam.Burst%3 == 0
	if rng.IntN(2) == 0 {
		w.terms.Quotas = []store.Bucket{bucket("namespace", 1+rng.IntN(60), time.Duration(1+rng.IntN(60))*time.Second)}
	}
	if f.Return {
		w.terms.Spam, w.terms.Quotas, w.terms.ChargeMerged = bucket("spam filter", 1<<20, time.Second), nil, false
		w.terms.Window, w.terms.RepeatWindow = 100*time.Hour, 100*time.Hour
		w.terms.MaxEvents = 1 + 99*rng.IntN(2) // so that an Event's place does not change
	}
	for i := range 5 {
		w.clients = append(w.clients, &client{world: w, id: i, recorder: i > 1, batch: i == 4, sent: map[kind]facts{}})
	}
	return w
}

// fly starts a flight that takes at most a while.
func (w *world) fly(s stage, longest time.Duration) {
	w.flights = append(w.flights, flight{s, w.now.Add(time.Duration(w.rng.Int64N(int64(longest))))})
}

// advance moves some flight on by one stage.
func (w *world) advance() {
	if len(w.flights) == 0 {
		return
	}
	i := w.rng.IntN(len(w.flights))
	if w.flights[i].next = w.flights[i].next(); w.flights[i].next == nil {
		w.flights = slices.Delete(w.flights, i, i+1)
	}
}

// finish moves all flights to their end.
func (w *world) finish() {
	for len(w.flights) > 0 {
		w.advance()
	}
}

// pass lets time pass. Flights end in time.
func (w *world) pass(d time.Duration) {
	until := w.now.Add(d)
	for {
		i := slices.IndexFunc(w.flights, func(f flight) bool { return f.by.Before(until) })
		if i < 0 {
			break
		}
		for w.flights[i].next != nil {
			w.flights[i].next = w.flights[i].next()
		}
		w.flights = slices.Delete(w.flights, i, i+1)
	}
	w.now = until
}
