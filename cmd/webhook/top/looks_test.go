package top

import (
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

func TestRatesAreOfTheLastTenSeconds(t *testing.T) {
	const unknown = -1.0
	late := reported{"b", 14, 50}.snapshot()
	late.Replica.Since = epoch().Add(12 * time.Second)
	partial := sumOf(reported{"a", 12, 200})
	partial.Partial = true
	for says, test := range map[string]struct {
		looks []busiest.Sum
		want  float64
	}{
		"the first look":                         {[]busiest.Sum{sumOf(reported{"a", 10, 100})}, unknown},
		"two":                                    {[]busiest.Sum{sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 200})}, 50},
		"two of the same":                        {[]busiest.Sum{sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 10, 100})}, unknown},
		"one that is reported again between":     {[]busiest.Sum{sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 14, 140})}, 10},
		"what was before is not asked":           {[]busiest.Sum{sumOf(reported{"a", 10, 0}), sumOf(reported{"a", 20, 1000}), sumOf(reported{"a", 30, 1100})}, 10},
		"several replicas, at different moments": {[]busiest.Sum{sumOf(reported{"a", 10, 100}, reported{"b", 11, 0}), sumOf(reported{"a", 12, 120}, reported{"b", 15, 40})}, 20},
		"nothing happens":                        {[]busiest.Sum{sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 100})}, 0},
		"a replica that has just begun":          {[]busiest.Sum{sumOf(reported{"a", 11, 100}), busiest.Add([]busiest.Snapshot{reported{"a", 16, 100}.snapshot(), late})}, 10},
		"a replica that had counted before":      {[]busiest.Sum{sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 100}, reported{"b", 12, 900})}, unknown},
		"a replica that has left":                {[]busiest.Sum{sumOf(reported{"a", 10, 100}, reported{"b", 10, 900}), sumOf(reported{"a", 12, 100})}, unknown},
		"others that are not known any more":     {[]busiest.Sum{sumOf(reported{"a", 10, 100}), partial}, unknown},
		"a row that lost its place meanwhile":    {[]busiest.Sum{sumOf(reported{"a", 10, 100}), sumOf(reported{"a", 12, 5})}, 0},
		"after that":                             {[]busiest.Sum{sumOf(reported{"b", 10, 100}), sumOf(reported{"a", 12, 100}), sumOf(reported{"a", 14, 104})}, 2},
	} {
		t.Run(says, func(t *testing.T) {
			var l looks
			for _, s := range test.looks {
				l = l.add(s)
			}
			s := l.show(busiest.Source, "rate", 10)
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

func TestOneThatWasNotSeenBeforeBeganWithNothingUnlessThereWereTooMany(t *testing.T) {
	before := sumOf(reported{"a", 10, 100})
	now := sumOf(reported{"a", 12, 100})
	source := now.By[busiest.Source]
	source.Rows = []busiest.Row{{Name: "new", Counts: busiest.Counts{Dropped: 30}}}
	now.By[busiest.Source] = source
	rate := func() float64 { return *looks{before, now}.show(busiest.Source, "rate", 1).Rows[0].Rate }
	if got := rate(); got != 15 {
		t.Errorf("%v a second, want 15", got)
	}
	full := before.By[busiest.Source]
	full.Missing = 20
	for i := range busiest.MaxRows - 1 {
		full.Rows = append(full.Rows, busiest.Row{Name: string(rune('a' + i))})
	}
	before.By[busiest.Source] = full
	if got := rate(); got != 5 {
		t.Errorf("%v a second, want 5", got)
	}
}
