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
	// settleEvery is how often the settler looks at what is due.
	settleEvery = 250 * time.Millisecond
	// settledWithin is the time after which nothing is pending, if nothing else is written: more than the longest
	// write interval and window.
	settledWithin = 26 * time.Hour
)

// advance lets time pass until a moment, and the settler works meanwhile.
func (r *run) advance(ctx context.Context, until time.Time) error {
	if r.now.IsZero() {
		r.now, r.settled = until, until
	}
	for until.Sub(r.settled) >= settleEvery {
		if r.settled.Sub(r.now) > settledWithin {
			r.settled = until
			break
		}
		r.settled = r.settled.Add(settleEvery)
		if _, err := r.settle(ctx, r.settled, 0, int(settleRate*settleEvery/time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// drain settles all that is pending at the end. What is pending for an Event that is not found goes to a notice
// in the next round.
func (r *run) drain(ctx context.Context) error {
	for {
		n, err := r.settle(ctx, r.now, math.MaxInt64, math.MaxInt32)
		if n == 0 || err != nil {
			return err
		}
	}
}

// settle makes up to n writes that are due, and returns how many it made.
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

// settleOne makes one write, as admission/settler does on an API server that always answers.
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
