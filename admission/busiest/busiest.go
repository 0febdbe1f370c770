// Package busiest counts what replicas decide, and finds who and what makes the most Event writes. A replica counts in
// bounded memory since it started, and shares Snapshots through Redis. A Sum adds up those of all replicas;
// admission/status does so for the statuses of rules.
package busiest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Dimension is what writes are counted by.
type Dimension string

// What writes are counted by, each on its own.
const (
	Namespace Dimension = "namespace" // of the Event
	Source    Dimension = "source"    // component and host
	Object    Dimension = "object"    // kind, namespace and name of the involvedObject
	Reason    Dimension = "reason"    // type and reason
	Policy    Dimension = "policy"    // or quota that decided
)

// Dimensions are all values of Dimension.
func Dimensions() []Dimension { return []Dimension{Namespace, Source, Object, Reason, Policy} }

// Row is one namespace, source, object, reason or rule. Its counts are never too high; their total may be too low by up
// to the Others of its ranking.
type Row struct {
	Name string `json:"name"`
	Counts
}

// Ranking is what was counted by one Dimension.
type Ranking struct {
	// Total is exact.
	Total Counts `json:"total"`
	// Rows have different names. Those of a Sum are sorted by their totals, most first.
	Rows []Row `json:"rows"`
}

// Others are the writes that are in no row: of what is not followed, or was not before.
func (r *Ranking) Others() int64 {
	others := r.Total.Matched()
	for _, row := range r.Rows {
		others -= row.Matched()
	}
	return others
}

// Replica is one that has counted, from Since to At by its own clock.
type Replica struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
}

// Snapshot is all that one replica has counted. It replaces an earlier one.
type Snapshot struct {
	Replica   Replica               `json:"replica"`
	Rankings  map[Dimension]Ranking `json:"by"`
	Breakdown Breakdown             `json:"within,omitzero"`
	// Rules are for their statuses: what those in audit mode would have done counts there, and only there.
	Rules []RuleCounts `json:"rules,omitempty"`
}

// All is what was counted until now. Two rankings may differ by the writes that are being counted.
func (r *RankingCounter) All() map[Dimension]Ranking {
	all := map[Dimension]Ranking{}
	for by, counted := range r.by {
		rows, total := counted.snapshot()
		one := Ranking{Total: total, Rows: make([]Row, len(rows))}
		for i, row := range rows {
			one.Rows[i] = Row{by.rowName(row.key), row.Counts}
		}
		all[by] = one
	}
	return all
}

// Snapshot is what was counted until now. Two rankings may differ by the writes that are being counted.
func (c *Counter) Snapshot(now time.Time) Snapshot {
	s := Snapshot{Replica: Replica{Name: c.replica, Since: c.since, At: now.UTC()}, Rankings: c.All()}
	s.Breakdown = c.breakdown()
	sources := map[RuleID][]SourceCounts{}
	refused, _ := c.refused.snapshot()
	for _, r := range refused {
		sources[r.key.rule] = append(sources[r.key.rule], SourceCounts{Source.rowName(r.key.source), Object.rowName(r.key.object), r.Counts})
	}
	rules, _ := c.rules.snapshot()
	for _, r := range rules {
		s.Rules = append(s.Rules, RuleCounts{ID: r.key, Counts: r.Counts, Error: r.failure, Sources: sources[r.key], Overflow: r.overflow, OverflowIn: r.overflowIn})
	}
	return s
}

// MaxRows bounds the rows of one ranking of a Sum.
const MaxRows = 1000

// Sum is what several replicas have counted.
type Sum struct {
	// Replicas are sorted by their names.
	Replicas []Replica `json:"replicas"`
	// Partial says that there may be others, which could not be asked.
	Partial  bool                  `json:"partial"`
	Rankings map[Dimension]Ranking `json:"by"`
}

// NewSum is the sum of snapshots, each of another replica. A ranking has the MaxRows rows with the highest totals.
func NewSum(snapshots []Snapshot) Sum {
	sum := Sum{Replicas: make([]Replica, 0, len(snapshots)), Rankings: map[Dimension]Ranking{}}
	for _, s := range snapshots {
		sum.Replicas = append(sum.Replicas, s.Replica)
	}
	slices.SortFunc(sum.Replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	for _, by := range Dimensions() {
		sum.Rankings[by] = sumRankings(snapshots, by)
	}
	return sum
}

// sumRankings adds up rows of the same name.
func sumRankings(snapshots []Snapshot, by Dimension) Ranking {
	var all Ranking
	rows := map[string]Counts{}
	for _, s := range snapshots {
		all.Total = all.Total.Add(s.Rankings[by].Total)
		for _, row := range s.Rankings[by].Rows {
			rows[row.Name] = rows[row.Name].Add(row.Counts)
		}
	}
	all.Rows = make([]Row, 0, len(rows))
	for name, counts := range rows {
		all.Rows = append(all.Rows, Row{name, counts})
	}
	slices.SortFunc(all.Rows, func(a, b Row) int { return compareRows(&a, &b) })
	all.Rows = all.Rows[:min(MaxRows, len(all.Rows))]
	return all
}

// compareRows puts the one with most writes first.
func compareRows(a, b *Row) int {
	return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), strings.Compare(a.Name, b.Name))
}

// key is what a row of a Ranking is found by: parts of its name, empty ones at the end.
type key [3]string

// rowName writes a key. No two keys of one Dimension share a name.
func (by Dimension) rowName(k key) string {
	switch by {
	case Source:
		if k[1] != "" {
			return quotePart(k[0]) + "/" + quotePart(k[1])
		}
	case Object:
		if k[1] != "" {
			return quotePart(k[0]) + " " + quotePart(k[1]) + "/" + quotePart(k[2])
		}
		return quotePart(k[0]) + " " + quotePart(k[2])
	case Reason:
		return quotePart(k[0]) + " " + quotePart(k[1])
	case Policy:
		return k[0] // a kind, a namespace and a name that the API server took
	case Namespace:
	}
	return quotePart(k[0])
}

// quotePart is s, quoted where it is empty, contains a separator or looks quoted, or where a terminal could not print it.
func quotePart(s string) string {
	odd := func(r rune) bool { return r == ' ' || r == '/' || !strconv.IsPrint(r) }
	if s == "" || s[0] == '"' || strings.ContainsFunc(s, odd) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}
