package store

import (
	"errors"
	"fmt"
	"time"
)

// asking is one question to the bucket of a quota.
type asking struct {
	place int // of the quota among those of the write
	quota
	stock       *stock
	need, extra int
	call        *call
}

// ask adds a question to a trip: for need tokens, 0 or 1, and for more in advance
// unless some are on their way.
func (l *leases) ask(t *trip, now time.Time, q Bucket, need int) asking {
	id := quota{q.Key, q.Limit}
	sh := l.shard(q.Key)
	defer sh.mu.Unlock()
	s := sh.stock(now, id)
	a := asking{quota: id, stock: s, need: need}
	if !sh.closed {
		a.extra = s.want(now)
	}
	if a.extra > 0 {
		s.asking = true
	}
	a.call = l.call(t, now, id, a.need, a.extra, s.held()+s.taken)
	s.taken = 0
	if a.extra > 0 {
		s.asked = now
	}
	return a
}

// call adds a call of lease.lua to a trip.
func (l *leases) call(t *trip, now time.Time, q quota, need, extra, held int) *call {
	return t.add(l.script, []string{l.keyFor(q.key)}, q.limit.Burst, wholeTime(q.limit.Every).Microseconds(),
		need, extra, l.replica, held, (2 * leaseTime).Microseconds(), l.clock(now))
}

// answer takes in the answer to a question that was sent after now. It tells
// whether the token that was needed is there, or when Redis has one. Where the
// answer is lost, so are its tokens.
func (l *leases) answer(now time.Time, a *asking) (bool, time.Time) {
	got, err := a.read()
	sh := l.shard(a.key)
	defer sh.mu.Unlock()
	s := a.stock
	if a.extra > 0 {
		s.asking = false
	}
	if err != nil {
		return false, time.Time{}
	}
	if got.given > 0 {
		l.leased(got.given)
	}
	ok := a.need <= got.given
	more := got.given
	if ok {
		more -= a.need
		s.taken += a.need
	}
	if a.extra > 0 {
		s.size = more
	}
	until := now.Add(leaseTime)
	if got.given > 0 {
		s.lent = until
	}
	if got.wait > 0 {
		s.next = got.at.Add(got.wait)
		s.emptyUntil = now.Add(min(got.wait, leaseTime))
	}
	if s.forgotten || sh.closed {
		sh.giveBack(a.quota, more)
	} else {
		s.add(more, until)
	}
	return ok, s.next
}

// lease is the answer of lease.lua.
type lease struct {
	given int
	wait  time.Duration // until the next token, 0 when there is one left
	at    time.Time     // by the clock of Redis
}

func (a *asking) read() (lease, error) {
	if a.call.Cmd == nil {
		return lease{}, errors.New("was not sent")
	}
	n, err := a.call.Int64Slice()
	if err != nil {
		return lease{}, err
	}
	if len(n) != 3 {
		return lease{}, fmt.Errorf("%d numbers in the answer, want 3", len(n))
	}
	return lease{int(n[0]), time.Duration(n[1]) * time.Microsecond, time.UnixMicro(n[2]).UTC()}, nil
}

// refills are batches that were asked for in a trip of somebody else.
type refills struct {
	leases *leases
	now    time.Time
	asked  []asking
}

// topUp adds to a trip the questions for the next batches of quotas that run
// low, at most one a quota at a time. The caller calls done when the trip is
// over, whatever came of it.
func (l *leases) topUp(t *trip, now time.Time, quotas []Bucket) refills {
	r := refills{leases: l, now: now}
	for _, q := range quotas {
		if l.low(q) {
			r.asked = append(r.asked, l.ask(t, now, q, 0))
		}
	}
	return r
}

func (l *leases) low(q Bucket) bool {
	sh := l.shard(q.Key)
	defer sh.mu.Unlock()
	s := sh.stocks[quota{q.Key, q.Limit}]
	return s != nil && !sh.closed && s.low()
}

// done takes in the answers.
func (r refills) done() {
	for i := range r.asked {
		r.leases.answer(r.now, &r.asked[i])
	}
}
