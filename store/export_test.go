package store

import (
	"context"
	"errors"
	"time"
)

// Punctual is a Redis store on the clock of its callers that remembers nothing
// between calls: it asks Redis about every write and gives back at once what it
// leased and did not use.
type Punctual struct{ *Redis }

// NewPunctual makes a Punctual of r.
func NewPunctual(r *Redis) Punctual {
	r.now = func(now time.Time) int64 { return now.UnixMicro() }
	r.refuser.bound = 0
	for i := range r.leases.shards {
		r.leases.shards[i].closed = true // nothing is leased in advance
	}
	return Punctual{r}
}

// Take implements Store.
func (p Punctual) Take(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	d, err := p.Redis.Take(ctx, now, w, t)
	return d, errors.Join(err, p.forget(ctx, now))
}

// Merge implements Store.
func (p Punctual) Merge(ctx context.Context, now time.Time, w Write, t Terms) (Decision, error) {
	d, err := p.Redis.Merge(ctx, now, w, t)
	return d, errors.Join(err, p.forget(ctx, now))
}

func (p Punctual) forget(ctx context.Context, now time.Time) error {
	err := p.leases.returnUnused(ctx, whole(now), true)
	for i := range p.leases.shards {
		sh := &p.leases.shards[i]
		sh.mu.Lock()
		for _, s := range sh.stocks {
			s.emptyUntil = time.Time{}
		}
		sh.mu.Unlock()
	}
	return err
}
