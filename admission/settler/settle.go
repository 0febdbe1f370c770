package settler

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/store"
)

// Result is what became of one write to the API server.
type Result string

// The results.
const (
	Told    Result = "told"
	Gone    Result = "gone"
	Refused Result = "refused"
	Retried Result = "retried"
)

// requestTimeout bounds the settling of one debt.
const requestTimeout = 10 * time.Second

// work settles what comes out of the queue until it is shut down.
func (s *Settler) work(ctx context.Context) {
	for {
		ref, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		s.mu.Lock()
		d, claimed := s.claimed[ref]
		s.mu.Unlock()
		if claimed {
			s.settle(ctx, d)
		}
		s.queue.Done(ref)
	}
}

// settle writes one debt and tells the store what became of it.
func (s *Settler) settle(ctx context.Context, d store.Debt) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log := logr.FromContextOrDiscard(ctx).WithValues("namespace", d.Namespace, "event", d.Name)
	traced, end := s.begin(ctx, d)
	result, err := s.events.write(traced, d)
	end(result, err)
	switch result {
	case Retried:
		log.V(1).Info("Stored Event not written, trying again", "reason", err.Error())
	case Refused:
		log.Error(err, "API server refuses a count", "total", d.Total)
	case Told:
		s.opts.Lag(max(0, s.opts.Clock.Since(d.Due)))
	case Gone:
	}
	s.opts.Count(result)
	if outcome, final := outcomes(result); final {
		err := s.report(ctx, d, outcome)
		if err == nil {
			s.queue.Forget(d.Ref)
			return
		}
		log.Error(err, "Store did not take what was settled")
	}
	s.queue.AddRateLimited(d.Ref)
}

// report tells the store what became of a debt. It is not claimed any more from
// the moment on at which the store may hand it out again.
func (s *Settler) report(ctx context.Context, d store.Debt, o store.Outcome) error {
	s.mu.Lock()
	delete(s.claimed, d.Ref)
	s.settling++
	s.mu.Unlock()
	err := s.debts.Settle(ctx, s.opts.Clock.Now(), d, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settling--
	if _, again := s.claimed[d.Ref]; err != nil && !again {
		s.claimed[d.Ref] = d
	}
	return err
}

// outcomes says what a result means to the store, and whether it is final.
func outcomes(r Result) (store.Outcome, bool) {
	switch r {
	case Told:
		return store.Told, true
	case Gone:
		return store.Gone, true
	case Refused:
		return store.Refused, true
	case Retried:
	}
	return 0, false
}
