package store

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// handOverWithin bounds one handing over of all that waits.
const handOverWithin = 2 * time.Second

// run hands over what was refused, from time to time until ctx is done and then
// all there is. From then on nothing is refused without asking Redis.
func (r *refuser) run(ctx context.Context) {
	tick := time.NewTicker(flushRefusals)
	defer tick.Stop()
	soon := r.soon
	for {
		var err error
		select {
		case <-tick.C:
			err = r.handOver(ctx, false)
		case <-soon:
			err = r.handOver(ctx, false)
		case <-ctx.Done():
			_ = r.handOver(context.WithoutCancel(ctx), true)
			return
		}
		soon = r.soon
		if err != nil {
			soon = nil // what failed is tried again after a while
		}
	}
}

// handOver hands over what was refused, and after an error keeps it. last says
// that there must be no more.
func (r *refuser) handOver(ctx context.Context, last bool) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	// What failed goes first: of one source and object, later refusals must not
	// arrive before earlier ones.
	if err := r.flushWaiting(ctx); err != nil && !last {
		return err
	}
	for i := range r.shards {
		r.waiting = r.shards[i].collect(r.waiting, last)
	}
	return r.flushWaiting(ctx)
}

// flushWaiting hands over what waits.
func (r *refuser) flushWaiting(ctx context.Context) error {
	if len(r.waiting) == 0 {
		return nil
	}
	list := make([]refusal, len(r.waiting))
	for i, o := range r.waiting {
		list[i] = o.refusal
	}
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	if err := r.flush(ctx, list); err != nil {
		return err
	}
	for _, o := range r.waiting {
		r.bytes.Add(-int64(o.bytes))
		o.reset()
		r.unused.Put(o)
	}
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	return nil
}

// collect appends what was refused in a shard to list.
func (sh *refuserShard) collect(list []*owed, last bool) []*owed {
	n := len(list)
	sh.mu.Lock()
	sh.closed = sh.closed || last
	for _, o := range sh.owed {
		list = append(list, o)
	}
	clear(sh.owed)
	sh.mu.Unlock()
	for _, o := range list[n:] {
		slices.SortFunc(o.names, func(a, b refusedName) int { return cmp.Compare(a.seen, b.seen) })
	}
	return list
}
