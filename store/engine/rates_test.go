package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

const us = time.Microsecond

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

func TestBucketState(t *testing.T) {
	type try struct {
		at   time.Duration
		want string
	}
	tests := []struct {
		says string
		store.Limit
		tries []try
	}{
		{"a full bucket gives its burst, then one token after each interval", store.Limit{Burst: 2, Every: time.Minute}, []try{
			{0, "token"},
			{0, "token"},
			{0, "none until 1m0s"},
			{time.Minute - 1, "none until 1m0s"},
			{time.Minute, "token"},
			{time.Minute, "none until 2m0s"},
			{2 * time.Minute, "token"},
		}},
		{"an interval begins when the bucket ceases to be full", store.Limit{Burst: 2, Every: time.Minute}, []try{
			{10 * time.Second, "token"},
			{50 * time.Second, "token"},
			{60 * time.Second, "none until 1m10s"},
			{70 * time.Second, "token"},
			{70 * time.Second, "none until 2m10s"},
		}},
		{"a bucket of no burst never gives", store.Limit{Burst: 0, Every: time.Minute}, []try{{0, "none ever"}, {time.Hour, "none ever"}}},
		{"a bucket of negative burst never gives", store.Limit{Burst: -1, Every: time.Minute}, []try{{0, "none ever"}}},
		{"a bucket of no burst never gives though it needs no time", store.Limit{}, []try{{0, "none ever"}}},
		{"a bucket that needs no time always gives", store.Limit{Burst: 1}, []try{{0, "token"}, {0, "token"}, {0, "token"}}},
		{"a bucket of negative time always gives", store.Limit{Burst: 1, Every: -1}, []try{{0, "token"}, {0, "token"}}},
		{"times are rounded up to microseconds", store.Limit{Burst: 1, Every: us + 1}, []try{{0, "token"}, {us, "none until 2µs"}, {2 * us, "token"}}},
		{"a bucket may take longer to fill than time can say", store.Limit{Burst: math.MaxInt, Every: time.Hour}, []try{{0, "token"}, {0, "token"}}},
		{"a token may take as long as time can say", store.Limit{Burst: 2, Every: math.MaxInt64}, []try{
			{0, "token"},
			{0, fmt.Sprint("none until ", 1<<52*us)},
			{1<<52*us - us, fmt.Sprint("none until ", 1<<52*us)},
			{1 << 52 * us, "token"},
		}},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			var v engine.BucketState
			for i, try := range test.tries {
				now := epoch().Add(try.at)
				before := v.Tokens(test.Limit, now)
				after, g := v.Take(test.Limit, now)
				if !g.OK && after.Tokens(test.Limit, now) != before {
					t.Errorf("try %d changed the bucket although it got no token", i+1)
				}
				if got := inWords(g); got != try.want {
					t.Errorf("try %d, at %v: %s, want %s", i+1, try.at, got, try.want)
				}
				v = after
			}
		})
	}
}

func inWords(g engine.TakeResult) string {
	switch {
	case g.OK && g.NextToken.IsZero():
		return "token"
	case g.OK:
		return "token, and a next one"
	case g.NextToken.IsZero():
		return "none ever"
	}
	return fmt.Sprint("none until ", g.NextToken.Sub(epoch()))
}

// A trace of whole seconds has no rounding in either of the two, so their answers must be equal.
func TestBucketStateMatchesRateLimiter(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lim := randomLimit(rng)
		want := rate.NewLimiter(rate.Every(lim.Every), lim.Burst)
		var v engine.BucketState
		now := epoch()
		for i := range 1000 {
			now = now.Add(time.Duration(rng.IntN(int(lim.Every/time.Second)*2)) * time.Second * time.Duration(rng.IntN(2)))
			after, g := v.Take(lim, now)
			v = after
			if allowed := want.AllowN(now, 1); g.OK != allowed {
				t.Fatalf("seed %d, try %d, %+v: token %t, want %t", seed, i, lim, g.OK, allowed)
			}
		}
	}
}

func randomLimit(rng *rand.Rand) store.Limit {
	return store.Limit{Burst: 1 + rng.IntN(30), Every: time.Duration(1+rng.IntN(300)) * time.Second}
}

// Clocks that are up to ten seconds apart share one bucket: all of them together get exactly what the
// latest of them would get alone.
func TestSkewedClocksShareOneBucket(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lim := store.Limit{Burst: 2 + rng.IntN(30), Every: time.Duration(20+rng.IntN(300)) * time.Second}
		var v engine.BucketState
		given := 0
		drain := func(now time.Time) {
			for {
				after, g := v.Take(lim, now)
				if v = after; !g.OK {
					return
				}
				given++
			}
		}
		now := epoch()
		drain(now)
		for range 1000 {
			now = now.Add(time.Duration(rng.Int64N(int64(lim.Every / 4)))).Truncate(us)
			drain(now.Add(-time.Duration(rng.Int64N(int64(10 * time.Second)))))
		}
		drain(now)
		if want := lim.Burst + int(now.Sub(epoch())/lim.Every); given != want {
			t.Errorf("seed %d: %d tokens of %+v in %v, want %d", seed, given, lim, now.Sub(epoch()), want)
		}
	}
}

// Whatever a clock does, a bucket gives its burst and what comes back in the time that passed on it;
// no jump ahead gives more than a full bucket, and no jump back takes anything.
func TestClockJumpFillsBucketOnce(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lim := randomLimit(rng)
		var v engine.BucketState
		now, given, most := epoch(), 0, float64(lim.Burst)
		for i := range 500 {
			step := time.Duration(rng.Int64N(int64(lim.Every)))
			if rng.IntN(20) == 0 {
				step = time.Duration(rng.Int64N(int64(400*time.Hour))) - 200*time.Hour
			}
			before := v.Tokens(lim, now)
			now = now.Add(step)
			tokens := v.Tokens(lim, now)
			if tokens > lim.Burst || tokens < before {
				t.Fatalf("seed %d, step %d of %v: %d tokens, then %d", seed, i, step, before, tokens)
			}
			most += min(float64(max(0, step))/float64(lim.Every), float64(lim.Burst))
			after, g := v.Take(lim, now)
			if v = after; g.OK {
				given++
			}
			if g.OK != (tokens > 0) {
				t.Fatalf("seed %d, step %d: a token: %t, although there are %d", seed, i, g.OK, tokens)
			}
			if !g.OK && g.NextToken.Sub(now) > lim.Every+10*time.Second {
				t.Fatalf("seed %d, step %d: the next token comes in %v, want %v at most", seed, i, g.NextToken.Sub(now), lim.Every)
			}
		}
		if float64(given) > most+1e-6 {
			t.Errorf("seed %d: %d tokens, want %f at most", seed, given, most)
		}
	}
}

func TestForceTakeIgnoresMissingTokens(t *testing.T) {
	lim := store.Limit{Burst: 2, Every: time.Minute}
	var v engine.BucketState
	for i, want := range []int{1, 0, 0, 0} {
		if v = v.ForceTake(lim, epoch()); v.Tokens(lim, epoch()) != want {
			t.Errorf("%d tokens after %d, want %d", v.Tokens(lim, epoch()), i+1, want)
		}
	}
	if got := v.Tokens(lim, epoch().Add(time.Minute)); got != 1 {
		t.Errorf("%d tokens a minute later, want 1: no bucket is emptier than empty", got)
	}
	for _, free := range []store.Limit{{Burst: 2}, {Every: time.Minute}} {
		if got := (engine.BucketState{}).ForceTake(free, epoch()); got != (engine.BucketState{}) {
			t.Errorf("%+v, want %+v unchanged", got, free)
		}
	}
}

func TestNextToken(t *testing.T) {
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
			v := engine.BucketState{Used: test.used.Microseconds(), At: epoch().UnixMicro()}
			want := time.Time{}
			if test.next != 0 {
				want = epoch().Add(test.next)
			}
			if n, next := v.Tokens(test.limit, epoch()), v.NextToken(test.limit, epoch()); n != test.want || !next.Equal(want) {
				t.Errorf("%d tokens, one more at %v, want %d, at %v", n, next, test.want, want)
			}
		})
	}
}
