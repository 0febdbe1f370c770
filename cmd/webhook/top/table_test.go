package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

func epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// replicaReport has the writes by one source that a replica has counted until a second.
type replicaReport struct {
	replica string
	second  int
	writes  int64
}

func (r replicaReport) snapshot() busiest.Snapshot {
	c := busiest.Counts{Merged: r.writes}
	at := epoch().Add(time.Duration(r.second) * time.Second)
	return busiest.Snapshot{
		Replica:  busiest.Replica{Name: r.replica, Since: epoch(), At: at},
		Rankings: map[busiest.Dimension]busiest.Ranking{busiest.Source: {Total: c, Rows: []busiest.Row{{Name: "kubelet", Counts: c}}}},
	}
}

func sumOf(all ...replicaReport) *busiest.Sum {
	var snapshots []busiest.Snapshot
	for _, one := range all {
		snapshots = append(snapshots, one.snapshot())
	}
	return new(busiest.NewSum(snapshots))
}

func TestRankingDelta(t *testing.T) {
	const failed = -1
	partial := sumOf(replicaReport{"a", 12, 200})
	partial.Partial = true
	for name, test := range map[string]struct {
		before, now     *busiest.Sum
		writes, seconds float64
	}{
		"one sum":                             {nil, sumOf(replicaReport{"a", 10, 100}), 100, 0},
		"two sums":                            {sumOf(replicaReport{"a", 10, 100}), sumOf(replicaReport{"a", 12, 200}), 100, 2},
		"several replicas at different times": {sumOf(replicaReport{"a", 10, 100}, replicaReport{"b", 11, 0}), sumOf(replicaReport{"a", 12, 120}, replicaReport{"b", 15, 40}), 60, 3},
		"no writes":                           {sumOf(replicaReport{"a", 10, 100}), sumOf(replicaReport{"a", 12, 100}), 0, 2},
		"a replica started":                   {sumOf(replicaReport{"a", 10, 100}), sumOf(replicaReport{"a", 12, 100}, replicaReport{"b", 12, 900}), failed, 0},
		"a replica stopped":                   {sumOf(replicaReport{"a", 10, 100}, replicaReport{"b", 10, 900}), sumOf(replicaReport{"a", 12, 100}), failed, 0},
		"a replica was replaced":              {sumOf(replicaReport{"a", 10, 100}), sumOf(replicaReport{"b", 12, 200}), failed, 0},
		"other replicas are no longer known":  {sumOf(replicaReport{"a", 10, 100}), partial, failed, 0},
		"a row was evicted in between":        {sumOf(replicaReport{"a", 10, 100}), sumOf(replicaReport{"a", 12, 5}), 5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := bySource().table(test.before, test.now)
			if err != nil {
				if test.writes != failed || !strings.Contains(err.Error(), "replicas started or stopped within the interval") {
					t.Error(err)
				}
				return
			}
			rows := int64(0)
			for _, r := range s.Rows {
				rows += r.Merged
			}
			if s.Seconds != test.seconds || s.Total.Merged != int64(test.writes) || rows != int64(test.writes) {
				t.Errorf("%d writes in %v s, %d of them in rows, want %v in %v s", s.Total.Merged, s.Seconds, rows, test.writes, test.seconds)
			}
		})
	}
}

func bySource() *options { return &options{By: string(busiest.Source), Sort: "total", Limit: 10} }

func TestNewRowsStartAtZeroUnlessTruncated(t *testing.T) {
	before, now := sumOf(replicaReport{"a", 10, 100}), sumOf(replicaReport{"a", 12, 100})
	source := now.Rankings[busiest.Source]
	source.Rows = []busiest.Row{{Name: "new", Counts: busiest.Counts{Dropped: 30}}}
	now.Rankings[busiest.Source] = source
	if s, err := bySource().table(before, now); err != nil || len(s.Rows) != 1 || s.Rows[0].Dropped != 30 {
		t.Errorf("table %+v, error %v, want a row with 30 dropped", s, err)
	}
	full := before.Rankings[busiest.Source]
	for i := range busiest.MaxRows - 1 {
		full.Rows = append(full.Rows, busiest.Row{Name: fmt.Sprint("old-", i)})
	}
	before.Rankings[busiest.Source] = full
	if s, err := bySource().table(before, now); err != nil || len(s.Rows) != 0 {
		t.Errorf("table %+v, error %v, want no row", s, err)
	}
}
