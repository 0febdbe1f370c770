package admission_test

import (
	"math"
	"strings"
	"time"
)

// reports says whether a message was written in a time.
func (s *server) reports(message string, from, to time.Time) bool {
	for _, w := range s.writes {
		if strings.HasSuffix(w.message, message) && !w.at.Before(from) && !w.at.After(to) {
			return true
		}
	}
	return false
}

// longestUnseen is the longest time since began in which nothing was written whose message starts with a reason.
func (s *server) longestUnseen(reason string, began time.Time) time.Duration {
	var longest time.Duration
	last := began
	for _, w := range append(s.writes, write{at: time.Now(), message: reason}) {
		if strings.HasPrefix(strings.TrimPrefix(w.message, combined), reason) {
			longest = max(longest, w.at.Sub(last))
			last = w.at
		}
	}
	return longest
}

// checkWrites fails the test when an Event was written more often than once in
// an interval, or more often than an interval that doubles up to a longest one allows.
func (s *server) checkWrites(interval, longest, during time.Duration) {
	s.t.Helper()
	times := map[string][]time.Time{}
	for _, w := range s.writes {
		if before := times[w.name]; len(before) > 0 && w.at.Sub(before[len(before)-1]) < interval {
			s.t.Errorf("Event %s is written %v after the last time", w.name, w.at.Sub(before[len(before)-1]))
		}
		times[w.name] = append(times[w.name], w.at)
	}
	for name, all := range times {
		if most := 2 + int(math.Log2(float64(longest/interval))) + int(during/longest); len(all) > most {
			s.t.Errorf("Event %s is written %d times in %v, at most %d", name, len(all), during, most)
		}
	}
}

// occurrences are those that stored Events and notices count.
func (s *server) occurrences() int32 {
	s.t.Helper()
	var n int32
	for _, e := range s.events {
		n += e.Count
	}
	return n
}

// checkMessages fails the test when a stored Event has a message that is too
// long, or lost its prefix while it was an aggregate.
func (s *server) checkMessages(limit int) {
	s.t.Helper()
	aggregates := map[string]bool{}
	for _, w := range s.writes {
		isCombined := strings.HasPrefix(w.message, combined)
		if len(w.message) > limit+len(combined) || aggregates[w.name] && w.message != "" && !isCombined {
			s.t.Errorf("Event %s is written with the message %.80q of %d bytes", w.name, w.message, len(w.message))
		}
		aggregates[w.name] = aggregates[w.name] || isCombined
	}
}
