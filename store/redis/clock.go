package redis

import (
	"sync"
	"time"
)

// clock is the clock of one shard of Redis: TIME of its last answer and the time since, by the
// monotonic clock of this process. It lags by the way of that answer. Before the first answer it is
// this process' own, which a step that is too early or too late corrects. No time of one shard is
// compared with one of another.
type clock struct {
	mu   sync.Mutex
	at   int64     // microseconds of Unix time
	seen time.Time // when that answer came; zero for none yet
}

// now is the time of the shard, given the time of this process.
func (c *clock) now(here time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() {
		return here.Truncate(time.Microsecond)
	}
	return time.UnixMicro(c.at).Add(here.Sub(c.seen)).Truncate(time.Microsecond).UTC()
}

// set takes over the time of an answer.
func (c *clock) set(at int64, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.seen = at, here
}

// known tells whether the shard has answered not long before.
func (c *clock) known(here time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.seen.IsZero() && here.Sub(c.seen) < time.Minute
}
