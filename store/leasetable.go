package store

import "time"

// sampled is how many stocks are looked at to find one to forget.
const sampled = 8

// unused is tokens of a quota to give back.
type unused struct {
	quota
	n int
}

// shard locks the shard that the quota is in. The caller unlocks it.
func (l *leases) shard(key Key) *leaseShard {
	sh := &l.shards[key[0]%leaseShards]
	sh.mu.Lock()
	return sh
}

// stock finds or makes the stock of q.
func (sh *leaseShard) stock(now time.Time, q quota) *stock {
	if s := sh.stocks[q]; s != nil {
		return s
	}
	if len(sh.stocks) >= sh.bound {
		sh.forgetOne()
	}
	s := &stock{used: now}
	sh.stocks[q] = s
	return s
}

// forgetOne forgets, of a few stocks, the one used longest ago.
func (sh *leaseShard) forgetOne() {
	var oldest quota
	var found *stock
	n := 0
	for q, s := range sh.stocks {
		if found == nil || s.used.Before(found.used) {
			oldest, found = q, s
		}
		if n++; n == sampled {
			break
		}
	}
	sh.forget(oldest, found)
}

func (sh *leaseShard) forget(q quota, s *stock) {
	s.forgotten = true
	delete(sh.stocks, q)
	sh.giveBack(q, s.idle(s.used, true))
}

// giveBack sets tokens aside until they are sent back.
func (sh *leaseShard) giveBack(q quota, n int) {
	if n > 0 {
		sh.back = append(sh.back, unused{q, n})
	}
}

// answers says what needs no state: a bucket without tokens and one that never
// runs out.
func (lim Limit) answers() (found, bool) {
	switch {
	case lim.Burst <= 0:
		return isEmpty, true
	case lim.Every <= 0:
		return hasToken, true
	}
	return isShort, false
}

// fromStock takes a token from the stock of q, and tells when Redis has one if
// there is none.
func (l *leases) fromStock(now time.Time, q Bucket) (found, time.Time) {
	return l.ofStock(now, q, (*stock).take)
}

// look tells what fromStock would do.
func (l *leases) look(now time.Time, q Bucket) (found, time.Time) {
	return l.ofStock(now, q, (*stock).look)
}

func (l *leases) ofStock(now time.Time, q Bucket, do func(*stock, time.Time) found) (found, time.Time) {
	if what, ok := q.answers(); ok {
		return what, time.Time{}
	}
	sh := l.shard(q.Key)
	defer sh.mu.Unlock()
	s := sh.stocks[quota{q.Key, q.Limit}]
	if s == nil {
		return isShort, time.Time{}
	}
	return do(s, now), s.next
}

// putBack puts a token back into the stock of q.
func (l *leases) putBack(now time.Time, q Bucket) {
	if _, ok := q.answers(); ok {
		return
	}
	sh := l.shard(q.Key)
	defer sh.mu.Unlock()
	id := quota{q.Key, q.Limit}
	if s := sh.stocks[id]; s != nil {
		s.used = now
		s.putBack()
		return
	}
	sh.giveBack(id, 1) // it was forgotten in the meantime
}
