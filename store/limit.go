package store

import "time"

// Limit is the size and the refill rate of a token bucket. A bucket starts
// full and holds at most Burst tokens; one comes back after each Every.
type Limit struct {
	// Burst is how many tokens a full bucket holds. 0 or less gives none, ever.
	Burst int
	// Every is the time in which one token comes back. 0 or less means that
	// tokens never run out.
	Every time.Duration
}

// level is how empty a token bucket is, as the generic cell rate algorithm
// keeps it: the moment, in nanoseconds of Unix time, at which the bucket is
// full again. Any moment that has passed, and so the zero value, is a full
// bucket. One number is the whole state: there is no refill to run, and two
// stores that hold the same number give the same answers.
type level int64

// grant is the answer of a bucket.
type grant struct {
	ok    bool
	after level     // the bucket's level once the token is taken; as before when !ok
	next  time.Time // when !ok: the first moment at which there is a token; zero for never
}

// take says whether the bucket at level l has a token at now. It changes
// nothing: the caller keeps the level in after when all its buckets agree.
func (lim Limit) take(l level, now time.Time) grant {
	switch {
	case lim.Burst <= 0:
		return grant{after: l}
	case lim.Every <= 0:
		return grant{ok: true, after: l}
	}
	t := level(now.UnixNano())
	used := max(l, t) - t
	free := level(lim.refill()) - used
	if free < level(lim.Every) {
		return grant{after: l, next: now.Add(lim.Every - time.Duration(free))}
	}
	return grant{ok: true, after: t + used + level(lim.Every)}
}

// refill is the time in which an empty bucket becomes full, 142 years at most:
// a bucket that would take longer holds the tokens of 142 years.
func (lim Limit) refill() time.Duration {
	switch {
	case lim.Burst <= 0 || lim.Every <= 0:
		return 0
	case int64(lim.Burst) > int64(longest/lim.Every):
		return longest
	}
	return time.Duration(lim.Burst) * lim.Every
}
