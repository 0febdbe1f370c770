package tally

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// flushWithin bounds one flush.
const flushWithin = 5 * time.Second

// Run flushes from time to time until ctx is done, and then once more. What was
// counted and not flushed by then is lost.
func (c *Counter) Run(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err := c.Flush(context.WithoutCancel(ctx)); err != nil {
				log.Error(err, "Last counts of policies are lost")
			}
			return
		}
		err := c.Flush(ctx)
		switch {
		case ctx.Err() != nil: // it goes on with the last flush
		case err != nil && !failing:
			log.Error(err, "Counts of policies are kept until they can be added to those of other replicas")
		case err == nil && failing:
			log.Info("Counts of policies are added to those of other replicas again")
		}
		failing = err != nil
	}
}

// Flush adds all that was counted to the Book, within 5 s. What the Book did
// not take is kept, and added by the next Flush before what is counted then.
func (c *Counter) Flush(ctx context.Context) error {
	c.flushing.Lock()
	defer c.flushing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := c.flushWaiting(ctx); err != nil {
		return err
	}
	c.seq++
	c.waiting = Batch{Replica: c.replica, Seq: c.seq, Entries: c.collect()}
	return c.flushWaiting(ctx)
}

// flushWaiting adds the batch that waits. It stays the same until it is taken:
// parts of it may have been.
func (c *Counter) flushWaiting(ctx context.Context) error {
	if len(c.waiting.Entries) == 0 {
		return nil
	}
	if err := c.book.Add(ctx, c.now(), c.waiting); err != nil {
		return fmt.Errorf("add counts of policies: %w", err)
	}
	c.waiting = Batch{}
	return nil
}

// collect takes out all that was counted.
func (c *Counter) collect() []Entry {
	var all []Entry
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		cells := sh.cells
		sh.cells = make(map[ID]*cell, len(cells))
		sh.mu.Unlock()
		for id, e := range cells {
			c.ids.Add(-1)
			c.followed.Add(-int64(len(e.offenders)))
			all = append(all, e.entry(id))
		}
	}
	return all
}

func (e *cell) entry(id ID) Entry {
	out := Entry{ID: id, Counts: e.counts}
	for i, f := range e.offenders {
		out.Offenders = append(out.Offenders, Offender{Subject: e.subjects[i], Merged: f.merged, Dropped: f.dropped})
	}
	return out
}
