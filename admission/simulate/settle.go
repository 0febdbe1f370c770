package simulate

import (
	"context"
	"math"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

const (
	// settleEvery is how often the settler looks at what is due.
	settleEvery = 250 * time.Millisecond
	// owedWithin is when all is settled that was owed, however far away the next
	// write is: the longest flush interval and window, and more.
	owedWithin = 26 * time.Hour
)

// advance lets time pass until a moment, in which the settler works. Then it is
// so much earlier for the gate.
func (r *run) advance(ctx context.Context, until time.Time, late time.Duration) error {
	if r.now.IsZero() {
		r.now, r.settled = until, until
	}
	for until.Sub(r.settled) >= settleEvery {
		if r.settled.Sub(r.now) > owedWithin {
			r.settled = until
			break
		}
		r.settled = r.settled.Add(settleEvery)
		most := int(float64(r.opts.SettleRate) * settleEvery.Seconds())
		if err := r.settle(ctx, r.settled, 0, max(most, 1)); err != nil {
			return err
		}
	}
	r.now = until.Add(-late)
	return nil
}

// drain settles all that is owed at the end.
func (r *run) drain(ctx context.Context) error {
	return r.settle(ctx, r.now, math.MaxInt64, math.MaxInt32)
}

// settle writes up to n debts that are due, and throws away those of audited
// policies.
func (r *run) settle(ctx context.Context, now time.Time, ahead time.Duration, n int) error {
	audited, err := r.audit.Due(ctx, now, math.MaxInt64, math.MaxInt32)
	if err != nil {
		return err
	}
	for _, d := range audited {
		if err := r.audit.Settle(ctx, now, d, store.Told); err != nil {
			return err
		}
	}
	debts, err := r.store.Due(ctx, now, ahead, n)
	if err != nil {
		return err
	}
	for _, d := range debts {
		outcome, err := r.pay(now, d)
		if err != nil {
			return err
		}
		if err := r.store.Settle(ctx, now, d, outcome); err != nil {
			return err
		}
	}
	return nil
}

// pay writes one debt, as the settler does.
func (r *run) pay(now time.Time, d store.Debt) (store.Outcome, error) {
	if d.Notice != nil {
		r.result.EtcdWrites.Notices++
		if !d.Notice.Written {
			r.result.Notices++
		}
		return store.Told, nil
	}
	e, refused, err := r.api.get(now, d.Namespace, d.Name)
	if err != nil || e == nil || refused {
		return store.Gone, err
	}
	r.result.EtcdWrites.Counts++
	settler.OwedTo(d).Apply(e)
	return store.Told, r.api.put(now, e)
}
