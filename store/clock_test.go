package store

import (
	"math"
	"testing"
	"time"
)

func TestWholeTime(t *testing.T) {
	const us = time.Microsecond
	tests := map[time.Duration]time.Duration{
		math.MinInt64: 0, -1: 0, 0: 0, 1: us, us: us, us + 1: 2 * us, time.Hour: time.Hour,
		longest - us - 1: longest - us, longest - 1: longest, longest: longest, longest + 1: longest, math.MaxInt64: longest,
	}
	for d, want := range tests {
		if got := wholeTime(d); got != want {
			t.Errorf("%d: %d, want %d", d, got, want)
		}
	}
}

func TestRoundedTermsLeaveTheCallersAlone(t *testing.T) {
	quotas := []Bucket{{Limit: Limit{Burst: 1, Every: time.Second}}, {Limit: Limit{Burst: 1, Every: 1}}}
	got := Terms{Quotas: quotas}.rounded()
	if quotas[1].Every != 1 {
		t.Error("the caller's quotas were changed")
	}
	if got.Quotas[0].Every != time.Second || got.Quotas[1].Every != time.Microsecond {
		t.Errorf("%v, want 1s and 1µs", got.Quotas)
	}
}

func TestRoundedWrite(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, time.May, 1, 0, 0, 0, 1999, time.UTC) }
	tests := []struct {
		says     string
		at, want time.Time
	}{
		{"none stays none", time.Time{}, time.Time{}},
		{"a moment is cut", year(2030), time.Date(2030, time.May, 1, 0, 0, 0, 1000, time.UTC)},
		{"what is before 1970 is its first microsecond", year(1969), time.UnixMicro(1)},
		{"what is long before 1970 is its first microsecond", year(-300_000), time.UnixMicro(1)},
		{"what is too late to count is the last moment that is not", year(2300), time.UnixMicro(1<<53 - 1)},
		{"what is much too late as well", year(300_000), time.UnixMicro(1<<53 - 1)},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			if got := (Write{At: test.at}).rounded().At; !got.Equal(test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
