package rules

import (
	"math/bits"
	"time"
)

// Schedule is when a stored Event or a notice is next written. The wait between two writes doubles
// with each, from Interval up to Max, and halves for each Max that passes without one. So in a time
// T there are at most 2 + log2(Max/Interval) + T/Max writes, the CREATE included.
type Schedule struct {
	Due       int64  `cbor:"1,keyasint,omitempty"` // 0 when nothing is pending
	WrittenAt int64  `cbor:"2,keyasint,omitempty"` // when it was last written; 0 for never
	Doublings int    `cbor:"3,keyasint,omitempty"`
	Interval  int64  `cbor:"4,keyasint,omitempty"`
	Max       int64  `cbor:"5,keyasint,omitempty"`
	Changes   uint64 `cbor:"6,keyasint,omitempty"` // counts what changed and what was written
	Failing   int64  `cbor:"7,keyasint,omitempty"` // since when writes fail; 0 when they do not
	Failures  int    `cbor:"8,keyasint,omitempty"`
}

const (
	// retryMin and retryMax bound the time after which a write that was given back is tried again;
	// it doubles with each time.
	retryMin = int64(30 * time.Second / time.Microsecond)
	retryMax = int64(10 * time.Minute / time.Microsecond)
)

// set takes over the settings of the newest write.
func (s *Schedule) set(interval, most time.Duration) {
	s.Interval = micros(interval)
	s.Max = max(s.Interval, micros(most))
}

// doublings is how often the wait is doubled at now.
func (s *Schedule) doublings(now int64) int {
	if s.Max <= 0 {
		return 0
	}
	return max(0, s.Doublings-int(min(max(0, now-s.WrittenAt)/s.Max, int64(s.Doublings))))
}

// wait is the least time between the last write and the next.
func (s *Schedule) wait(now int64) int64 {
	n := s.doublings(now)
	if n >= bits.LeadingZeros64(uint64(s.Interval))-1 || s.Interval<<n > s.Max {
		return s.Max
	}
	return s.Interval << n
}

// ready is when the next write may be.
func (s *Schedule) ready(now int64) int64 {
	if s.WrittenAt == 0 {
		return now + s.Interval
	}
	return max(now, min(s.WrittenAt, now)+s.wait(now)) // a clock that was ahead delays nothing
}

// change notes that there is something to write.
func (s *Schedule) change(now int64) {
	s.Changes++
	if ready := s.ready(now); s.Due == 0 || ready < s.Due && s.Failing == 0 {
		s.Due = ready
	}
}

// created notes a CREATE, which is no write between others: what comes next waits one Interval.
func (s *Schedule) created(now int64) {
	s.Doublings = s.doublings(now)
	s.WrittenAt = now
	s.Changes++
	s.Failing, s.Failures = 0, 0
}

// wrote notes a write, by whomever.
func (s *Schedule) wrote(now int64) {
	s.created(now)
	if s.Interval<<min(s.Doublings, 40) < s.Max {
		s.Doublings++
	}
}

// settled notes that nothing is pending if nothing has changed since a write was claimed.
func (s *Schedule) settled(now int64, changes uint64) {
	unchanged := s.Changes == changes
	s.wrote(now)
	s.Due = 0
	if !unchanged {
		s.Due = s.ready(now)
	}
}

// failed puts a write off that did not succeed.
func (s *Schedule) failed(now int64) {
	if s.Failing == 0 {
		s.Failing = now
	}
	s.Due = now + min(retryMin<<min(uint(s.Failures), 10), retryMax)
	s.Failures++
}

// givenUp notes that a write is not tried any more. What has changed since it was claimed is another.
func (s *Schedule) givenUp(now int64, changes uint64) {
	unchanged := s.Changes == changes
	s.Due = 0
	s.Failing, s.Failures = 0, 0
	if !unchanged {
		s.Due = s.ready(now)
	}
	s.Changes++
}
