package engine_test

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

func TestSanitizeClampsTimes(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, time.May, 1, 0, 0, 0, 1999, time.UTC) }
	tests := []struct {
		name     string
		at, want time.Time
	}{
		{"no time becomes now", time.Time{}, epoch()},
		{"a time is truncated to microseconds", year(2029), time.Date(2029, time.May, 1, 0, 0, 0, 1000, time.UTC)},
		{"ten minutes ahead stays", epoch().Add(10 * time.Minute), epoch().Add(10 * time.Minute)},
		{"more than ten minutes ahead becomes now", epoch().Add(10*time.Minute + 1), epoch()},
		{"a year of five digits becomes now", year(10_000), epoch()},
		{"a year of six digits becomes now", year(300_000), epoch()},
		{"a time before 1970 becomes its first microsecond", year(1969), time.UnixMicro(1)},
		{"a negative year becomes the first microsecond of 1970", year(-300_000), time.UnixMicro(1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var g engine.Group
			l, w := someLimits(), someWrite("a", epoch())
			w.LastSeen, w.FirstSeen = test.at, test.at
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			g.Decide(epoch(), store.Key{}, w, &l, nil) // under the same name, so it is stored again
			w.Name = "b"
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			if writes := g.Claim(store.Key{}, epoch().Add(time.Hour)); len(writes) != 1 || !writes[0].LastSeen.Equal(test.want) {
				t.Errorf("%+v, want one write with the last occurrence at %v", writes, test.want)
			}
		})
	}
}
