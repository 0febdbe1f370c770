package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

func epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// reported is what a replica reported at a second, of writes by one source.
type reported struct {
	replica string
	second  int
	writes  int64
}

func (l reported) snapshot() busiest.Snapshot {
	c := busiest.Counts{Merged: l.writes}
	at := epoch().Add(time.Duration(l.second) * time.Second)
	return busiest.Snapshot{
		Replica: busiest.Replica{Name: l.replica, Since: epoch(), At: at},
		By:      map[busiest.By]busiest.Ranking{busiest.Source: {Total: c, Rows: []busiest.Row{{Name: "kubelet", Counts: c}}}},
	}
}

func sumOf(all ...reported) busiest.Sum {
	var snapshots []busiest.Snapshot
	for _, one := range all {
		snapshots = append(snapshots, one.snapshot())
	}
	return busiest.Add(snapshots)
}

func TestRatesAreOfWhatWasWrittenBetweenTwoLooks(t *testing.T) {
	const unknown = -1.0
	partial := sumOf(reported{"a", 12, 200})
	partial.Partial = true
	for says, test := range map[string]struct {
		before, now busiest.Sum
		want        float64
	}{
		"only one":                               {busiest.Sum{}, sumOf(reported{"a", 10, 100}), unknown},
		"two":                                    {sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 200}), 50},
		"two of the same":                        {sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 10, 100}), unknown},
		"several replicas, at different moments": {sumOf(reported{"a", 10, 100}, reported{"b", 11, 0}), sumOf(reported{"a", 12, 120}, reported{"b", 15, 40}), 20},
		"nothing happens":                        {sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 100}), 0},
		"a replica has come":                     {sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 100}, reported{"b", 12, 900}), unknown},
		"a replica has left":                     {sumOf(reported{"a", 10, 100}, reported{"b", 10, 900}), sumOf(reported{"a", 12, 100}), unknown},
		"one has taken the place of another":     {sumOf(reported{"a", 10, 100}), sumOf(reported{"b", 12, 200}), unknown},
		"others that are not known any more":     {sumOf(reported{"a", 10, 100}), partial, unknown},
		"a row that lost its place meanwhile":    {sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 5}), 0},
	} {
		t.Run(says, func(t *testing.T) {
			s := bySource(10).table(test.before, test.now)
			got, all := unknown, unknown
			if s.Rate != nil {
				got, all = *s.Rows[0].Rate, *s.Rate
			}
			if got != test.want || all != test.want {
				t.Errorf("%v a second and %v of all, want %v", got, all, test.want)
			}
		})
	}
}

// bySource are options for the sources with the highest rates.
func bySource(limit int) *options {
	return &options{By: string(busiest.Source), Sort: "rate", Limit: limit}
}

func TestOneThatWasNotSeenBeforeBeganWithNothingUnlessThereWereTooMany(t *testing.T) {
	before := sumOf(reported{"a", 10, 100})
	now := sumOf(reported{"a", 12, 100})
	source := now.By[busiest.Source]
	source.Rows = []busiest.Row{{Name: "new", Counts: busiest.Counts{Dropped: 30}}}
	now.By[busiest.Source] = source
	rate := func() float64 { return *bySource(1).table(before, now).Rows[0].Rate }
	if got := rate(); got != 15 {
		t.Errorf("%v a second, want 15", got)
	}
	full := before.By[busiest.Source]
	for i := range busiest.MaxRows - 1 {
		full.Rows = append(full.Rows, busiest.Row{Name: fmt.Sprint("old-", i), Counts: busiest.Counts{Merged: 20}})
	}
	before.By[busiest.Source] = full
	if got := rate(); got != 5 {
		t.Errorf("%v a second, want 5", got)
	}
}
