package store_test

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

func TestWhatIsLeftOfABucket(t *testing.T) {
	now := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	five := store.Limit{Burst: 5, Every: time.Minute}
	for says, test := range map[string]struct {
		limit store.Limit
		full  time.Duration // from now
		want  int
		next  time.Duration // 0 for none
	}{
		"a full one has its burst":                         {five, 0, 5, 0},
		"one that was full long ago too":                   {five, -time.Hour, 5, 0},
		"one that has given a token has it back in a time": {five, time.Minute, 4, time.Minute},
		"and sooner as time passes":                        {five, time.Second, 4, time.Second},
		"an empty one has its next in the time of one":     {five, 5 * time.Minute, 0, time.Minute},
		"one that has given more than it has":              {five, 10 * time.Minute, 0, time.Minute},
		"a moment before the next":                         {five, 4*time.Minute + time.Microsecond, 0, time.Microsecond},
		"one without tokens never has any":                 {store.Limit{Every: time.Minute}, time.Minute, 0, 0},
		"one that never runs out has its burst":            {store.Limit{Burst: 5}, time.Hour, 5, 0},
	} {
		t.Run(says, func(t *testing.T) {
			n, next := test.limit.Left(now.Add(test.full), now)
			wantNext := time.Time{}
			if test.next != 0 {
				wantNext = now.Add(test.next)
			}
			if n != test.want || !next.Equal(wantNext) {
				t.Errorf("%d tokens, one more at %v, want %d, at %v", n, next, test.want, wantNext)
			}
		})
	}
}

func TestWhatIsLeftOfAReserve(t *testing.T) {
	now := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	held := func(reasons ...string) (b store.PeekedBucket) {
		for i, r := range reasons {
			b.Reserves = append(b.Reserves, store.PeekedReserve{Reason: store.KeyOf(r), Used: 1, Until: now.Add(time.Duration(i) * time.Minute)})
		}
		return b
	}
	many := make([]string, 17) // of which the first is over
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	for says, test := range map[string]struct {
		bucket  store.PeekedBucket
		reason  string
		per     int
		want    int
		renewed time.Duration // 0 for none
	}{
		"all of a reason that was not heard":        {held(), "x", 1, 1, 0},
		"none of one that was heard":                {held("a", "b"), "b", 1, 0, time.Minute},
		"what is left of it":                        {held("a", "b"), "b", 3, 2, time.Minute},
		"all of one whose window is over":           {held("a", "b"), "a", 1, 1, 0},
		"none where others hold all the places":     {held(many...), "x", 1, 0, time.Minute},
		"all where one of the others has its place": {held(many[:16]...), "x", 1, 1, 0},
		"none where there is no reserve":            {held(), "x", 0, 0, 0},
	} {
		t.Run(says, func(t *testing.T) {
			n, renewed := test.bucket.Reserve(test.reason, test.per, now)
			want := time.Time{}
			if test.renewed != 0 {
				want = now.Add(test.renewed)
			}
			if n != test.want || !renewed.Equal(want) {
				t.Errorf("%d left until %v, want %d until %v", n, renewed, test.want, want)
			}
		})
	}
}
