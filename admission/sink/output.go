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

// Output accepts batches of records. Only one call of Send runs at a time.
type Output interface {
	// Send sends encoded OTLP LogRecords. It returns soon after its context has ended, if it can.
	Send(ctx context.Context, batch [][]byte) SendResult
	// Close releases what Send uses.
	Close()
}

// SendResult is the result of sending a batch.
type SendResult struct {
	// Err is nil if the batch was accepted.
	Err error
	// Rejected is the number of records rejected from a batch that was accepted. The receiver does not say which.
	Rejected int
	// Accepted is the number of records, from the start, accepted from a batch that failed. The rest is retried if Retry is set.
	Accepted int
	// Retry is true if the rest may be retried after RetryAfter.
	Retry      bool
	RetryAfter time.Duration
	// Unknown is true if the batch may have been accepted, because there was no answer.
	Unknown bool
}

const (
	// batchRecords and batchBytes bound one batch. Collectors take 4 MiB by default.
	batchRecords, batchBytes = 512, 1 << 20
	// batchDelay is how long the first record of a batch waits for others.
	batchDelay = 100 * time.Millisecond
	// minRetryDelay and maxRetryDelay are the first and the longest wait before a batch is retried, and maxRetryTime bounds its retries.
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
	sending []*record // removed from the queue, with an outcome that is not known yet
}

func newOutput(s *Sink, name string, target Output, bytes int64) *output {
	return &output{
		Sink: s, name: name, target: target, queue: newQueue(bytes), logLimiter: rate.Sometimes{Interval: 10 * time.Second},
		minRetryDelay: minRetryDelay, maxRetryTime: maxRetryTime,
	}
}

// run sends until the queue is closed and empty, or ctx ends.
func (o *output) run(ctx context.Context) {
	defer o.target.Close()
	for o.waitForRecords(ctx) {
		// Records that are being sent cannot be evicted, so they must leave most of the queue to other namespaces.
		batch := o.queue.dequeue(batchRecords, min(batchBytes, o.queue.limit/4))
		o.mu.Lock()
		o.sending = batch
		o.mu.Unlock()
		o.deliver(ctx, batch)
	}
}

// waitForRecords waits until there are records to send, and then up to batchDelay for more. It reports whether there are any.
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

// deliver sends a batch, with retries, until the outcome of each record is known.
func (o *output) deliver(ctx context.Context, batch []*record) {
	encoded := make([][]byte, len(batch))
	for i, r := range batch {
		encoded[i] = r.encoded
	}
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = o.minRetryDelay, maxRetryDelay
	why := Refused // stays Unanswered once it is: an attempt without an answer may have been accepted
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		result := o.target.Send(ctx, encoded)
		if result.Err == nil {
			o.countSent(len(encoded), result.Rejected, why)
			return struct{}{}, nil
		}
		if result.Unknown {
			why = Unanswered
		}
		o.countSent(result.Accepted, 0, why)
		encoded = encoded[result.Accepted:]
		switch {
		case !result.Retry:
			return struct{}{}, backoff.Permanent(result.Err)
		case result.RetryAfter > 0:
			return struct{}{}, errors.Join(result.Err, &backoff.RetryAfterError{Duration: min(result.RetryAfter, maxRetryDelay)})
		}
		return struct{}{}, result.Err
	}, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(o.maxRetryTime), backoff.WithNotify(func(err error, _ time.Duration) { o.logFailure(err) }))
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

// countSent counts the outcome of the next n records being sent, of which some were undelivered for a reason. It does nothing once
// countRemaining has counted them.
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
		// The receiver does not say which records it rejected. Count those with the most occurrences, so that no loss is underreported.
		part = slices.Clone(part)
		slices.SortStableFunc(part, func(a, b *record) int { return cmp.Compare(b.occurrences, a.occurrences) })
		o.logFailure(fmt.Errorf("%w: %d of %d", errPartlyRejected, undelivered, n))
	}
	o.countUndelivered(why, part[:undelivered]...)
	if o.opts.Counts != nil && n > undelivered {
		o.opts.Counts.Delivered(o.name, n-undelivered)
	}
}

// countUndelivered counts undelivered records, and has notices report them. Notices report a record once, even if several outputs
// have not delivered it.
func (o *output) countUndelivered(why Reason, records ...*record) {
	for _, r := range records {
		if o.opts.Counts != nil {
			o.opts.Counts.Undelivered(o.name, r.namespace, why, r.occurrences)
		}
		if r.undelivered.CompareAndSwap(false, true) {
			o.undelivered.Add(r.occurrences)
			o.notices.add(r)
		}
	}
}

// countRemaining counts all remaining records as undelivered.
func (o *output) countRemaining() {
	o.queue.close()
	o.mu.Lock()
	n := len(o.sending)
	o.mu.Unlock()
	o.countSent(n, n, Unanswered) // Send has not returned
	for {
		batch := o.queue.dequeue(batchRecords, batchBytes)
		if len(batch) == 0 {
			return
		}
		o.queue.release(batch)
		o.countUndelivered(Stopped, batch...)
	}
}

// logFailure logs that an output fails, and why, at most every 10 s.
func (o *output) logFailure(err error) {
	o.failing.Store(true)
	o.logLimiter.Do(func() {
		o.opts.Log.Info("Copies of Events are not delivered", "output", o.name, "reason", store.Clip(err.Error(), maxErrorBytes), "waiting", o.queue.pending())
	})
}

// logRecovery logs that an output works again after a failure.
func (o *output) logRecovery() {
	if o.failing.CompareAndSwap(true, false) {
		o.opts.Log.Info("Copies of Events are delivered again", "output", o.name)
	}
}
