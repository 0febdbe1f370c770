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
		says     string
		at, want time.Time
	}{
		{"none is now", time.Time{}, epoch()},
		{"a moment is cut to microseconds", year(2029), time.Date(2029, time.May, 1, 0, 0, 0, 1000, time.UTC)},
		{"ten minutes ahead are let be", epoch().Add(10 * time.Minute), epoch().Add(10 * time.Minute)},
		{"more than ten minutes ahead are now", epoch().Add(10*time.Minute + 1), epoch()},
		{"a year of five digits is now", year(10_000), epoch()},
		{"what is much too late as well", year(300_000), epoch()},
		{"what is before 1970 is its first microsecond", year(1969), time.UnixMicro(1)},
		{"what is long before 1970 as well", year(-300_000), time.UnixMicro(1)},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			var g engine.Group
			l, w := someLimits(), someWrite("a", epoch())
			w.LastSeen, w.FirstSeen = test.at, test.at
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			g.Decide(epoch(), store.Key{}, w, &l, nil) // under the same name: it is stored again
			w.Name = "b"
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			if writes := g.Claim(store.Key{}, epoch().Add(time.Hour)); len(writes) != 1 || !writes[0].LastSeen.Equal(test.want) {
				t.Errorf("%+v, want the newest occurrence at %v", writes, test.want)
			}
		})
	}
}
