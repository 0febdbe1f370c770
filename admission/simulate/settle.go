package simulate

import (
	"context"
	"math"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

const (
	// settleEvery is how often the settler looks for due writes.
	settleEvery = 250 * time.Millisecond
	// settledWithin is the time after which nothing is pending without further Events. It exceeds the longest write interval
	// and window.
	settledWithin = 26 * time.Hour
)

// advance moves the clock to until and runs the settler meanwhile.
func (r *run) advance(ctx context.Context, until time.Time) error {
	if r.now.IsZero() {
		r.now, r.lastSettled = until, until
	}
	for until.Sub(r.lastSettled) >= settleEvery {
		if r.lastSettled.Sub(r.now) > settledWithin {
			r.lastSettled = until
			break
		}
		r.lastSettled = r.lastSettled.Add(settleEvery)
		if _, err := r.settle(ctx, r.lastSettled, 0, int(settleRate*settleEvery/time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// drain writes all pending counts and notices at the end. If an Event is not found, its count becomes a notice in the next
// round.
func (r *run) drain(ctx context.Context) error {
	for {
		n, err := r.settle(ctx, r.now, math.MaxInt64, math.MaxInt32)
		if n == 0 || err != nil {
			return err
		}
	}
}

// settle makes up to n due writes and returns their number.
func (r *run) settle(ctx context.Context, now time.Time, ahead time.Duration, n int) (int, error) {
	none := func(string, store.Key) bool { return false }
	writes, err := r.store.Claim(ctx, now, ahead, n, none)
	if err != nil {
		return 0, err
	}
	writes = writes[:min(len(writes), n)]
	for i := range writes {
		outcome, err := r.settleOne(now, writes[i])
		if err != nil {
			return 0, err
		}
		if err := r.store.Complete(ctx, now, writes[i], outcome); err != nil {
			return 0, err
		}
	}
	return len(writes), nil
}

// settleOne makes one write, like admission/settler with an API server that is always available.
func (r *run) settleOne(now time.Time, p store.PendingWrite) (store.Outcome, error) {
	written := store.Outcome{Result: store.Written, UID: "simulated", ResourceVersion: "1"}
	if p.Notice != nil {
		r.result.EtcdWrites.Notices++
		if p.UID == "" {
			r.result.Notices++
		}
		return written, nil
	}
	e, isStored, err := r.api.get(now, p.Namespace, p.Name)
	if err != nil || !isStored {
		return store.Outcome{Result: store.NotFound}, err
	}
	if !admission.MatchesPending(&p, e) {
		return store.Outcome{Result: store.NameTaken}, nil
	}
	written.Stored = admission.ReadStored(e, "")
	p.Adopt(written.Stored)
	r.result.EtcdWrites.Counts++
	settler.Apply(&p, "", e)
	return written, r.api.put(now, nil, e, false)
}
