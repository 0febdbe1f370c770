package rules_test

import (
	"math"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

func TestWhenABucketHasOneTokenMore(t *testing.T) {
	five := store.Limit{Burst: 5, Every: time.Minute}
	for says, test := range map[string]struct {
		limit store.Limit
		used  time.Duration
		want  int
		next  time.Duration // 0 for none
	}{
		"never where it is full":                           {five, 0, 5, 0},
		"one that has given a token has it back in a time": {five, time.Minute, 4, time.Minute},
		"and sooner as time passes":                        {five, time.Second, 4, time.Second},
		"an empty one has its next in the time of one":     {five, 5 * time.Minute, 0, time.Minute},
		"one that has given more than it has":              {five, 10 * time.Minute, 0, 6 * time.Minute},
		"a moment before the next":                         {five, 4*time.Minute + time.Microsecond, 0, time.Microsecond},
		"one without tokens never has any":                 {store.Limit{Every: time.Minute}, time.Minute, 0, 0},
		"one that never runs out has its burst":            {store.Limit{Burst: 5}, time.Hour, 5, 0},
		"one of negative burst has none":                   {store.Limit{Burst: -7}, 0, 0, 0},
		"one that holds more than time can say":            {store.Limit{Burst: math.MaxInt, Every: time.Hour}, 0, int(1 << 52 * us / time.Hour), 0},
		"one whose tokens take as long as time can say":    {store.Limit{Burst: 2, Every: 1 << 52 * us}, 0, 1, 0},
	} {
		t.Run(says, func(t *testing.T) {
			v := rules.Level{Used: test.used.Microseconds(), At: epoch().UnixMicro()}
			want := time.Time{}
			if test.next != 0 {
				want = epoch().Add(test.next)
			}
			if n, next := v.Tokens(test.limit, epoch()), v.Next(test.limit, epoch()); n != test.want || !next.Equal(want) {
				t.Errorf("%d tokens, one more at %v, want %d, at %v", n, next, test.want, want)
			}
		})
	}
}

func TestWhatIsLeftOfAReserve(t *testing.T) {
	l := someLimits()
	l.Window = time.Hour
	many := make([]string, 17) // more than have a place
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	for says, test := range map[string]struct {
		came    []string      // reasons, one a minute
		after   time.Duration // after the last
		reason  string
		per     int
		want    int
		renewed time.Duration // after the first came; 0 for none
	}{
		"all of a reason that did not come":     {nil, 0, "x", 1, 1, 0},
		"none of one that came":                 {[]string{"a", "b"}, 0, "b", 1, 0, 61 * time.Minute},
		"what is left of it":                    {[]string{"a", "b"}, 0, "b", 3, 2, 61 * time.Minute},
		"all of one whose window is over":       {[]string{"a", "b"}, time.Hour, "a", 1, 1, 0},
		"none where others hold all the places": {many, 0, "x", 1, 0, 60 * time.Minute},
		"all where one of the others is over":   {many, 44 * time.Minute, "x", 1, 1, 0},
		"none where there is no reserve":        {nil, 0, "x", 0, 0, 0},
		"of a long reason as of its beginning":  {[]string{long(256)}, 0, long(512), 1, 0, 60 * time.Minute},
	} {
		t.Run(says, func(t *testing.T) {
			g, now := &rules.Group{}, epoch().Add(-time.Minute)
			l.ReservePerReason = test.per
			for _, reason := range test.came {
				now = now.Add(time.Minute)
				w := someWrite(reason[:1], now)
				w.Reason, w.Exact = reason, store.KeyOf(reason)
				w.Similar = w.Exact
				if d, _ := g.Decide(now, store.Key{}, w, &l, nil); !d.Verdict.Admits() {
					t.Fatalf("%s: %s", reason, d.Verdict)
				}
			}
			n, renewed := g.Reserve(now.Add(test.after), test.reason, &l)
			want := time.Time{}
			if test.renewed != 0 {
				want = epoch().Add(test.renewed)
			}
			if n != test.want || !renewed.Equal(want) {
				t.Errorf("%d left until %v, want %d until %v", n, renewed, test.want, want)
			}
		})
	}
}
