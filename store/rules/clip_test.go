package rules_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

func TestTimesAreThoseThatAClockMayShow(t *testing.T) {
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
			var g rules.Group
			l, w := someLimits(), someWrite("a", epoch())
			w.At, w.First = test.at, test.at
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			g.Decide(epoch(), store.Key{}, w, &l, nil) // under the same name: it is stored again
			w.Name = "b"
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			if writes := g.Claim(store.Key{}, epoch().Add(time.Hour)); len(writes) != 1 || !writes[0].Last.Equal(test.want) {
				t.Errorf("%+v, want the newest occurrence at %v", writes, test.want)
			}
		})
	}
}

// clipped holds that what is kept of a text has bounds, whatever a client writes.
func clipped(t *testing.T, g *rules.Group) {
	t.Helper()
	within := func(most int, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if len(text) > most {
				t.Fatalf("a text of %d bytes is kept, want %d at most", len(text), most)
			}
		}
	}
	object := func(o store.Object) {
		t.Helper()
		within(253, o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID)
	}
	object(g.About)
	within(253, g.Namespace, g.Source.Component, g.Source.Host)
	for _, r := range g.Records {
		within(253, r.Name)
		within(128, r.Reason)
		within(1024, r.Text)
		for _, m := range r.Messages {
			within(1024, m.What)
		}
	}
	for _, n := range g.Notices {
		object(n.About)
		within(253, append([]string{n.Bucket, n.Policy}, n.Objects...)...)
		for _, tally := range n.Reasons {
			within(128, tally.What)
		}
		for _, tally := range n.Sources {
			within(253, tally.What)
		}
	}
}

// Counts and settings may be as odd as they get.
func TestOddNumbersDoNoHarm(t *testing.T) {
	odd := []int64{math.MinInt64, -1, 0, 1, 2, 1 << 31, 1 << 52, math.MaxInt64}
	for _, n := range odd {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := time.Duration(n)
			l := store.Limits{
				Merge: true, MaxEvents: int(n), Window: d, RepeatWindow: d, WriteInterval: d, MaxWriteInterval: d,
				KeepMessages: int(n), ReservePerReason: int(n), Spam: store.Bucket{Limit: store.Limit{Burst: int(n), Every: d}, Key: store.KeyOf("spam")},
			}
			g := &rules.Group{}
			for i := range 20 {
				now := epoch().Add(time.Duration(i) * time.Minute)
				w := someWrite(fmt.Sprint(i%7), now)
				w.Combined = i%2 == 0
				w.Message, w.Exact = store.KeyOf(fmt.Sprint(i)), store.KeyOf(fmt.Sprint(i))
				if i%3 == 0 {
					w.Update = &store.Update{Recorder: i%2 == 0, Stored: store.Stored{Count: 1 + int64(i), Merged: n}}
				}
				g.Decide(now, store.Key{}, w, &l, nil)
				for _, p := range g.Claim(store.Key{}, now) {
					if p.Total < 1 {
						t.Fatalf("%+v: no Event says that it never happened", p)
					}
					g.Complete(now, store.Key{}, &p, store.Outcome{Result: store.Result(i % 6), Stored: store.Stored{Count: 3, Merged: n}})
				}
			}
			b, err := g.Marshal()
			if err == nil {
				_, err = rules.Unmarshal(b)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
