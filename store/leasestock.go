package store

import "time"

// quota names a bucket with its settings: with others it is another one.
type quota struct {
	key   Key
	limit Limit
}

// stock is what a replica holds of one quota.
type stock struct {
	older, newer batch
	size         int       // of the newest batch; 0 when nothing is given in advance
	asking       bool      // a batch is on its way
	asked        time.Time // when the newest batch was asked for
	lent         time.Time // until when the token that was last taken may be kept
	expired      int       // tokens to give back
	taken        int       // since Redis was last asked; some may be put back
	emptyUntil   time.Time // before that, Redis has no token
	next         time.Time // when Redis has one, by its own clock
	used         time.Time
	forgotten    bool // it is not in the table any more
}

// batch is tokens that were leased together.
type batch struct {
	n     int
	until time.Time // when they must be used or given back
}

// found is what a stock says of its quota.
type found int

const (
	isShort found = iota // Redis must be asked
	hasToken
	isEmpty
)

// look tells what take would do.
func (s *stock) look(now time.Time) found {
	s.used = now
	s.expire(now)
	switch {
	case s.older.n > 0:
		return hasToken
	case now.Before(s.emptyUntil):
		return isEmpty
	}
	return isShort
}

// take takes a token, if there is one.
func (s *stock) take(now time.Time) found {
	what := s.look(now)
	if what == hasToken {
		s.older.n--
		s.taken++
		s.lent = s.older.until
	}
	return what
}

// expire sets aside the tokens whose time has passed.
func (s *stock) expire(now time.Time) {
	for range 2 {
		if s.older.n > 0 && now.Before(s.older.until) {
			return
		}
		s.expired += s.older.n
		s.older, s.newer = s.newer, batch{}
	}
}

// add takes in n tokens. Of those that come when two batches are there, the
// time is that of the newer batch: less than their own.
func (s *stock) add(n int, until time.Time) {
	switch {
	case n == 0:
	case s.older.n == 0:
		s.older = batch{n, until}
	case s.newer.n == 0:
		s.newer = batch{n, until}
	default:
		s.newer.n += n
	}
}

// putBack takes back a token that was taken and not used. Its time does not
// begin anew.
func (s *stock) putBack() {
	if s.older.n == 0 {
		s.older = batch{1, s.lent}
		return
	}
	s.older.n++
}

// low tells whether the next batch should be on its way.
func (s *stock) low() bool {
	return !s.asking && s.size > 0 && s.held() <= s.size/2
}

func (s *stock) held() int { return s.older.n + s.newer.n }

// want is how many tokens to ask for in advance: twice as many as the last time
// if those were soon used up.
func (s *stock) want(now time.Time) int {
	switch {
	case s.asking:
		return 0
	case s.size == 0:
		return 1
	case now.Sub(s.asked) < leaseTime/4:
		return min(2*s.size, maxBatch)
	}
	return s.size
}

// idle takes out what was not used in time, and with all the rest too. What is
// not used makes the next batch smaller.
func (s *stock) idle(now time.Time, all bool) int {
	s.expire(now)
	if s.expired > 0 {
		s.size /= 2
	}
	n := s.expired
	s.expired = 0
	if all {
		n += s.held()
		s.older, s.newer = batch{}, batch{}
	}
	if n > 0 {
		s.emptyUntil = time.Time{} // Redis is about to have a token
	}
	return n
}
