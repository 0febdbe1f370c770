package store

import (
	"context"
	"time"
)

// idleStocks is how long a stock without tokens stays known.
const idleStocks = 10 * time.Second

// run gives back tokens that were not used in time until ctx is done, and then
// all there are. From then on nothing is leased in advance.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(leaseTime / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			// What could not be given back is lost, as what a killed replica holds.
			_ = l.returnUnused(ctx, time.Now(), false)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			_ = l.returnUnused(last, time.Now(), true)
			return
		}
	}
}

// returnUnused gives back the tokens whose time has passed, or all for good.
// Those that an error keeps from arriving are lost.
func (l *leases) returnUnused(ctx context.Context, now time.Time, all bool) error {
	var t trip
	for i := range l.shards {
		for _, u := range l.shards[i].unused(now, all) {
			l.call(&t, now, u.quota, -u.n, 0, 0)
			l.leased(-u.n)
		}
	}
	return t.send(ctx, l.client)
}

// unused takes out of all stocks what is to be given back, and forgets stocks
// that are not used.
func (sh *leaseShard) unused(now time.Time, all bool) []unused {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = sh.closed || all
	for q, s := range sh.stocks {
		sh.giveBack(q, s.idle(now, all))
		if now.Sub(s.used) >= idleStocks && !s.asking {
			sh.forget(q, s)
		}
	}
	back := sh.back
	sh.back = nil
	return back
}
