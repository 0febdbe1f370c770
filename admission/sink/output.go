package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"github.com/eventquota/eventquota/store"
)

// Output takes batches of records. One call of Send is made at a time.
type Output interface {
	// Send sends LogRecords of OTLP, and returns how many of them were not taken, and why. It ends soon after its context,
	// if it can.
	Send(ctx context.Context, batch [][]byte) SendResult
	// Close ends what Send uses.
	Close()
}

// SendResult is what became of a batch.
type SendResult struct {
	// Err is nil where the batch was taken.
	Err error
	// Rejected is how many of a batch that was taken were not. Which of them, the other side does not say.
	Rejected int
	// Accepted is how many of a batch that was not taken were, from its beginning: the rest is tried again, if Again says so.
	Accepted int
	// Retry says that it may be tried again, not before After.
	Retry      bool
	RetryAfter time.Duration
	// Unknown says that the batch may have been taken, as there was no answer.
	Unknown bool
}

const (
	// batchRecords and batchBytes bound one batch. Collectors take 4 MiB by default.
	batchRecords, batchBytes = 512, 1 << 20
	// batchDelay is how long the first record of a batch waits for others.
	batchDelay = 100 * time.Millisecond
	// minRetryDelay and maxRetryDelay are the first and the longest wait before a batch is sent again, and maxRetryTime is for how long
	// it is.
	minRetryDelay, maxRetryDelay, maxRetryTime = 200 * time.Millisecond, 10 * time.Second, 5 * time.Minute
)

// output is an Output with its queue.
type output struct {
	*Sink

	name       string
	target     Output
	queue      *queue
	logLimiter rate.Sometimes
	failing    atomic.Bool
	// minRetryDelay and maxRetryTime are the constants, or less in tests.
	minRetryDelay, maxRetryTime time.Duration

	mu      sync.Mutex
	sending []*record // what was taken from the queue, until it is known what became of it
}

func newOutput(s *Sink, name string, to Output, bytes int64) *output {
	return &output{
		Sink: s, name: name, target: to, queue: newQueue(bytes), logLimiter: rate.Sometimes{Interval: 10 * time.Second},
		minRetryDelay: minRetryDelay, maxRetryTime: maxRetryTime,
	}
}

// run sends until the queue is closed and empty, or ctx ends.
func (o *output) run(ctx context.Context) {
	defer o.target.Close()
	for o.waitForRecords(ctx) {
		batch := o.queue.dequeue(batchRecords, batchBytes)
		o.mu.Lock()
		o.sending = batch
		o.mu.Unlock()
		o.deliver(ctx, batch)
	}
}

// waitForRecords waits until there is something to send, and a moment longer for more of it. It reports whether there is.
func (o *output) waitForRecords(ctx context.Context) bool {
	for o.queue.pending() == 0 {
		select {
		case <-o.queue.ready:
		case <-ctx.Done():
			return false
		case <-o.queue.closed:
			return o.queue.pending() > 0
		}
	}
	if o.queue.pending() < batchRecords {
		select {
		case <-time.After(batchDelay):
		case <-ctx.Done():
		case <-o.queue.closed:
		}
	}
	return ctx.Err() == nil
}

// deliver sends a batch until it is known what became of all of it.
func (o *output) deliver(ctx context.Context, batch []*record) {
	encoded := make([][]byte, len(batch))
	for i, r := range batch {
		encoded[i] = r.encoded
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = o.minRetryDelay, maxRetryDelay
	why := Refused // once it is unanswered it stays so: what was not answered may have been taken
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		a := o.target.Send(ctx, encoded)
		if a.Err == nil {
			o.countSent(len(encoded), a.Rejected, why)
			return struct{}{}, nil
		}
		if a.Unknown {
			why = Unanswered
		}
		o.countSent(a.Accepted, 0, why)
		encoded = encoded[a.Accepted:]
		switch {
		case !a.Retry:
			return struct{}{}, backoff.Permanent(a.Err)
		case a.RetryAfter > 0:
			return struct{}{}, errors.Join(a.Err, &backoff.RetryAfterError{Duration: min(a.RetryAfter, maxRetryDelay)})
		}
		return struct{}{}, a.Err
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(o.maxRetryTime), backoff.WithNotify(func(err error, _ time.Duration) { o.logFailure(err) }))
	switch {
	case err == nil:
		o.logRecovery()
		return
	case why == Refused && ctx.Err() != nil:
		why = Stopped
	}
	o.logFailure(err)
	o.countSent(len(encoded), len(encoded), why)
}

// countSent counts the next n records of those that are being sent, of which some were not delivered, for a reason. Once end has
// counted them, it does nothing.
func (o *output) countSent(n, undelivered int, why Reason) {
	o.mu.Lock()
	n = min(n, len(o.sending))
	part := o.sending[:n]
	o.sending = o.sending[n:]
	o.mu.Unlock()
	if n == 0 {
		return
	}
	o.queue.release(part)
	undelivered = min(max(undelivered, 0), n)
	if undelivered > 0 && undelivered < n {
		// The other side does not say which: those that stand for most, so that what is said to be missing is not too little.
		part = slices.Clone(part)
		slices.SortStableFunc(part, func(a, b *record) int { return cmp.Compare(b.occurrences, a.occurrences) })
		o.logFailure(fmt.Errorf("%w: %d of %d", errPartlyRejected, undelivered, n))
	}
	o.countUndelivered(why, part[:undelivered]...)
	if o.opts.Counts != nil && n > undelivered {
		o.opts.Counts.Delivered(o.name, n-undelivered)
	}
}

// countUndelivered counts records that were not delivered, and lets notices say so. An output more changes nothing in a notice.
func (o *output) countUndelivered(why Reason, all ...*record) {
	for _, r := range all {
		if o.opts.Counts != nil {
			o.opts.Counts.Undelivered(o.name, r.namespace, why, r.occurrences)
		}
		if r.undelivered.CompareAndSwap(false, true) {
			o.undelivered.Add(r.occurrences)
			o.notices.add(r)
		}
	}
}

// countRemaining counts what is left.
func (o *output) countRemaining() {
	o.queue.close()
	o.mu.Lock()
	n := len(o.sending)
	o.mu.Unlock()
	o.countSent(n, n, Unanswered) // as Send has not returned
	for {
		batch := o.queue.dequeue(batchRecords, batchBytes)
		if len(batch) == 0 {
			return
		}
		o.queue.release(batch)
		o.countUndelivered(Stopped, batch...)
	}
}

// logFailure says from time to time that an output fails, and why.
func (o *output) logFailure(err error) {
	o.failing.Store(true)
	o.logLimiter.Do(func() {
		o.opts.Log.Info("Copies of Events are not delivered", "output", o.name, "reason", store.Clip(err.Error(), maxErrorBytes), "waiting", o.queue.pending())
	})
}

// logRecovery says that an output that has failed does not any more.
func (o *output) logRecovery() {
	if o.failing.CompareAndSwap(true, false) {
		o.opts.Log.Info("Copies of Events are delivered again", "output", o.name)
	}
}
