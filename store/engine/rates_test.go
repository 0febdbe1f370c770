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
	type take struct {
		at   time.Duration
		want string
	}
	tests := []struct {
		name string
		store.Limit
		takes []take
	}{
		{"a full bucket gives its burst, and then a token in each interval", store.Limit{Burst: 2, Every: time.Minute}, []take{
			{0, "token"},
			{0, "token"},
			{0, "none until 1m0s"},
			{time.Minute - 1, "none until 1m0s"},
			{time.Minute, "token"},
			{time.Minute, "none until 2m0s"},
			{2 * time.Minute, "token"},
		}},
		{"an interval begins when the bucket is no longer full", store.Limit{Burst: 2, Every: time.Minute}, []take{
			{10 * time.Second, "token"},
			{50 * time.Second, "token"},
			{60 * time.Second, "none until 1m10s"},
			{70 * time.Second, "token"},
			{70 * time.Second, "none until 2m10s"},
		}},
		{"a bucket with burst 0 never gives a token", store.Limit{Burst: 0, Every: time.Minute}, []take{{0, "none ever"}, {time.Hour, "none ever"}}},
		{"a bucket with a negative burst never gives a token", store.Limit{Burst: -1, Every: time.Minute}, []take{{0, "none ever"}}},
		{"a bucket with burst 0 and interval 0 never gives a token", store.Limit{}, []take{{0, "none ever"}}},
		{"a bucket with interval 0 always gives a token", store.Limit{Burst: 1}, []take{{0, "token"}, {0, "token"}, {0, "token"}}},
		{"a bucket with a negative interval always gives a token", store.Limit{Burst: 1, Every: -1}, []take{{0, "token"}, {0, "token"}}},
		{"a reserve of the whole burst leaves no token, ever", store.Limit{Burst: 2, Every: time.Minute, Reserve: 2}, []take{{0, "none ever"}, {time.Hour, "none ever"}}},
		{"a reserve above the burst leaves no token, ever", store.Limit{Burst: 1, Every: time.Minute, Reserve: 3}, []take{{0, "none ever"}}},
		{"times are rounded up to microseconds", store.Limit{Burst: 1, Every: us + 1}, []take{{0, "token"}, {us, "none until 2µs"}, {2 * us, "token"}}},
		{"a bucket may take longer to fill than a Duration can hold", store.Limit{Burst: math.MaxInt, Every: time.Hour}, []take{{0, "token"}, {0, "token"}}},
		{"an interval is at most 2^52 µs", store.Limit{Burst: 2, Every: math.MaxInt64}, []take{
			{0, "token"},
			{0, fmt.Sprint("none until ", 1<<52*us)},
			{1<<52*us - us, fmt.Sprint("none until ", 1<<52*us)},
			{1 << 52 * us, "token"},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var v engine.BucketState
			for i, take := range test.takes {
				now := epoch().Add(take.at)
				before := v.Tokens(test.Limit, now)
				after, g := v.Take(test.Limit, now)
				if !g.OK && after.Tokens(test.Limit, now) != before {
					t.Errorf("take %d changes the bucket although it gets no token", i+1)
				}
				if got := formatResult(g); got != take.want {
					t.Errorf("take %d, at %v: %s, want %s", i+1, take.at, got, take.want)
				}
				v = after
			}
		})
	}
}

func formatResult(g engine.TakeResult) string {
	switch {
	case g.OK && g.NextToken.IsZero():
		return "token"
	case g.OK:
		return "token, with the time of the next"
	case g.NextToken.IsZero():
		return "none ever"
	}
	return fmt.Sprint("none until ", g.NextToken.Sub(epoch()))
}

// With whole seconds, neither bucket rounds, so both must give the same results.
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
				t.Fatalf("seed %d, take %d, %+v: token %t, want %t", seed, i, lim, g.OK, allowed)
			}
		}
	}
}

func randomLimit(rng *rand.Rand) store.Limit {
	return store.Limit{Burst: 1 + rng.IntN(30), Every: time.Duration(1+rng.IntN(300)) * time.Second}
}

// Clocks that are up to ten seconds apart share one bucket. Together they get exactly as many tokens as the latest of them
// would get alone.
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
			t.Errorf("seed %d: %d tokens from %+v in %v, want %d", seed, given, lim, now.Sub(epoch()), want)
		}
	}
}

// A bucket gives at most its burst and the refill for the time that passed on the clock, even if the clock jumps. A jump
// ahead gives at most a full bucket, and a jump back takes no tokens away.
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
				t.Fatalf("seed %d, step %d of %v: %d tokens before, %d after; want no fewer, and at most %d", seed, i, step, before, tokens, lim.Burst)
			}
			most += min(float64(max(0, step))/float64(lim.Every), float64(lim.Burst))
			after, g := v.Take(lim, now)
			if v = after; g.OK {
				given++
			}
			if g.OK != (tokens > 0) {
				t.Fatalf("seed %d, step %d: took a token: %t, with %d in the bucket", seed, i, g.OK, tokens)
			}
			if !g.OK && g.NextToken.Sub(now) > lim.Every+10*time.Second {
				t.Fatalf("seed %d, step %d: the next token comes in %v, want at most %v", seed, i, g.NextToken.Sub(now), lim.Every+10*time.Second)
			}
		}
		if float64(given) > most+1e-6 {
			t.Errorf("seed %d: %d tokens, want at most %f", seed, given, most)
		}
	}
}

func TestForceTakeIgnoresMissingTokens(t *testing.T) {
	lim := store.Limit{Burst: 2, Every: time.Minute}
	var v engine.BucketState
	for i, want := range []int{1, 0, 0, 0} {
		if v = v.ForceTake(lim, epoch()); v.Tokens(lim, epoch()) != want {
			t.Errorf("%d tokens after %d takes, want %d", v.Tokens(lim, epoch()), i+1, want)
		}
	}
	if got := v.Tokens(lim, epoch().Add(time.Minute)); got != 1 {
		t.Errorf("%d tokens a minute later, want 1, as a bucket cannot go below empty", got)
	}
	for _, stateless := range []store.Limit{{Burst: 2}, {Every: time.Minute}} {
		if got := (engine.BucketState{}).ForceTake(stateless, epoch()); got != (engine.BucketState{}) {
			t.Errorf("state of a bucket of %+v: %+v, want none", stateless, got)
		}
	}
}

func TestNextToken(t *testing.T) {
	five := store.Limit{Burst: 5, Every: time.Minute}
	for name, test := range map[string]struct {
		limit store.Limit
		used  time.Duration
		want  int
		next  time.Duration // 0 for none
	}{
		"full":                                {five, 0, 5, 0},
		"one token taken":                     {five, time.Minute, 4, time.Minute},
		"one token taken, almost refilled":    {five, time.Second, 4, time.Second},
		"empty":                               {five, 5 * time.Minute, 0, time.Minute},
		"more taken than the burst":           {five, 10 * time.Minute, 0, 6 * time.Minute},
		"a microsecond before the next token": {five, 4*time.Minute + time.Microsecond, 0, time.Microsecond},
		"burst 0":                             {store.Limit{Every: time.Minute}, time.Minute, 0, 0},
		"interval 0":                          {store.Limit{Burst: 5}, time.Hour, 5, 0},
		"negative burst":                      {store.Limit{Burst: -7}, 0, 0, 0},
		"longer to fill than a Duration can hold": {store.Limit{Burst: math.MaxInt, Every: time.Hour}, 0, int(1 << 52 * us / time.Hour), 0},
		"the longest interval":                    {store.Limit{Burst: 2, Every: 1 << 52 * us}, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := engine.BucketState{Used: test.used.Microseconds(), At: epoch().UnixMicro()}
			want := time.Time{}
			if test.next != 0 {
				want = epoch().Add(test.next)
			}
			if n, next := v.Tokens(test.limit, epoch()), v.NextToken(test.limit, epoch()); n != test.want || !next.Equal(want) {
				t.Errorf("%d tokens, the next at %v; want %d, at %v", n, next, test.want, want)
			}
		})
	}
}
