package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

func TestLimit(t *testing.T) {
	type try struct {
		at   time.Duration
		want string
	}
	tests := []struct {
		says string
		Limit
		tries []try
	}{
		{"a full bucket gives its burst, then one token after each interval", Limit{2, time.Minute}, []try{
			{0, "token"},
			{0, "token"},
			{0, "none until 1m0s"},
			{time.Minute - 1, "none until 1m0s"},
			{time.Minute, "token"},
			{time.Minute, "none until 2m0s"},
			{2 * time.Minute, "token"},
		}},
		{"an interval begins when the bucket ceases to be full", Limit{2, time.Minute}, []try{
			{10 * time.Second, "token"},
			{50 * time.Second, "token"},
			{60 * time.Second, "none until 1m10s"},
			{70 * time.Second, "token"},
			{70 * time.Second, "none until 2m10s"},
		}},
		{"a bucket is full again after burst intervals and no fuller later", Limit{2, time.Minute}, []try{
			{0, "token"},
			{0, "token"},
			{time.Hour, "token"},
			{time.Hour, "token"},
			{time.Hour, "none until 1h1m0s"},
		}},
		{"being refused costs nothing", Limit{1, time.Minute}, []try{
			{0, "token"},
			{time.Second, "none until 1m0s"},
			{2 * time.Second, "none until 1m0s"},
			{time.Minute, "token"},
		}},
		{"a clock that goes back gives no tokens until it has caught up", Limit{2, time.Minute}, []try{
			{time.Hour, "token"},
			{time.Hour, "token"},
			{0, "none until 1h1m0s"},
			{time.Hour, "none until 1h1m0s"},
			{time.Hour + time.Minute, "token"},
		}},
		{"a bucket of no burst never gives", Limit{0, time.Minute}, []try{{0, "none ever"}, {time.Hour, "none ever"}}},
		{"a bucket of negative burst never gives", Limit{-1, time.Minute}, []try{{0, "none ever"}}},
		{"a bucket of no burst never gives though it needs no time", Limit{0, 0}, []try{{0, "none ever"}}},
		{"a bucket that needs no time always gives", Limit{1, 0}, []try{{0, "token"}, {0, "token"}, {0, "token"}}},
		{"a bucket of negative time always gives", Limit{1, -1}, []try{{0, "token"}, {0, "token"}}},
		{"a bucket may take longer to fill than time can tell", Limit{math.MaxInt, time.Hour}, []try{{0, "token"}, {0, "token"}}},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			var l level
			for i, try := range test.tries {
				g := test.take(l, epoch().Add(try.at))
				if !g.ok && g.after != l {
					t.Errorf("try %d changed the bucket although it got no token", i+1)
				}
				if got := inWords(g); got != try.want {
					t.Errorf("try %d, at %v: %s, want %s", i+1, try.at, got, try.want)
				}
				l = g.after
			}
		})
	}
}

func inWords(g grant) string {
	switch {
	case g.ok && g.next.IsZero():
		return "token"
	case g.ok:
		return "token, and a next one"
	case g.next.IsZero():
		return "none ever"
	}
	return fmt.Sprint("none until ", g.next.Sub(epoch()))
}

// A trace of whole seconds has no rounding in either of the two, so their
// answers must be equal.
func TestLimitEqualsRateLimiter(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lim := Limit{Burst: 1 + rng.IntN(30), Every: time.Duration(1+rng.IntN(300)) * time.Second}
		want := rate.NewLimiter(rate.Every(lim.Every), lim.Burst)
		var l level
		now := epoch()
		for i := range 1000 {
			now = now.Add(time.Duration(rng.IntN(int(lim.Every/time.Second)*2)) * time.Second * time.Duration(rng.IntN(2)))
			g := lim.take(l, now)
			l = g.after
			if allowed := want.AllowN(now, 1); g.ok != allowed {
				t.Fatalf("seed %d, try %d, %+v: token %t, want %t", seed, i, lim, g.ok, allowed)
			}
		}
	}
}

func TestRefill(t *testing.T) {
	tests := []struct {
		Limit
		want time.Duration
	}{
		{Limit{25, 5 * time.Minute}, 125 * time.Minute},
		{Limit{0, time.Minute}, 0},
		{Limit{1, 0}, 0},
		{Limit{math.MaxInt, time.Hour}, 1 << 52 * time.Microsecond},
		{Limit{1, 1 << 52 * time.Microsecond}, 1 << 52 * time.Microsecond},
		{Limit{2, 1 << 52 * time.Microsecond}, 1 << 52 * time.Microsecond},
	}
	for _, test := range tests {
		if got := test.refill(); got != test.want {
			t.Errorf("%+v: full after %v, want %v", test.Limit, got, test.want)
		}
	}
}
