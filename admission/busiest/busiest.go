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

// By is what writes are counted by.
type By string

// What writes are counted by, each on its own.
const (
	Namespace By = "namespace" // of the Event
	Source    By = "source"    // component and host
	Object    By = "object"    // kind, namespace and name of the involvedObject
	Reason    By = "reason"    // type and reason
	Policy    By = "policy"    // or quota that decided
)

// All are all values of By.
func All() []By { return []By{Namespace, Source, Object, Reason, Policy} }

// Row is one namespace, source, object, reason or rule. Its counts are never too high; their total may be too low by up
// to the Others of its ranking.
type Row struct {
	Name string `json:"name"`
	Counts
}

// Ranking is what was counted by one By.
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
	Replica Replica        `json:"replica"`
	By      map[By]Ranking `json:"by"`
	Within  Within         `json:"within,omitzero"`
	// Rules are for their statuses: what those in audit mode would have done counts there, and only there.
	Rules []RuleCounts `json:"rules,omitempty"`
}

// All is what was counted until now. Two rankings may differ by the writes that are being counted.
func (r *Rankings) All() map[By]Ranking {
	all := map[By]Ranking{}
	for by, counted := range r.by {
		rows, total := counted.all()
		one := Ranking{Total: total, Rows: make([]Row, len(rows))}
		for i, row := range rows {
			one.Rows[i] = Row{by.name(row.key), row.Counts}
		}
		all[by] = one
	}
	return all
}

// Snapshot is what was counted until now. Two rankings may differ by the writes that are being counted.
func (c *Counter) Snapshot(now time.Time) Snapshot {
	s := Snapshot{Replica: Replica{Name: c.replica, Since: c.since, At: now.UTC()}, By: c.All()}
	s.Within = c.within()
	sources := map[RuleID][]SourceCounts{}
	refused, _ := c.refused.all()
	for _, r := range refused {
		sources[r.key.rule] = append(sources[r.key.rule], SourceCounts{Source.name(r.key.source), Object.name(r.key.object), r.Counts})
	}
	rules, _ := c.rules.all()
	for _, r := range rules {
		s.Rules = append(s.Rules, RuleCounts{ID: r.key, Counts: r.Counts, Error: r.err, Sources: sources[r.key], Overflow: r.overflow, OverflowIn: r.overflowIn})
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
	Partial bool           `json:"partial"`
	By      map[By]Ranking `json:"by"`
}

// Add is the sum of snapshots, each of another replica. A ranking has the MaxRows rows with the highest totals.
func Add(snapshots []Snapshot) Sum {
	sum := Sum{Replicas: make([]Replica, 0, len(snapshots)), By: map[By]Ranking{}}
	for _, s := range snapshots {
		sum.Replicas = append(sum.Replicas, s.Replica)
	}
	slices.SortFunc(sum.Replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	for _, by := range All() {
		sum.By[by] = addRankings(snapshots, by)
	}
	return sum
}

// addRankings adds up rows of the same name.
func addRankings(snapshots []Snapshot, by By) Ranking {
	var all Ranking
	rows := map[string]Counts{}
	for _, s := range snapshots {
		all.Total = all.Total.Add(s.By[by].Total)
		for _, row := range s.By[by].Rows {
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

// name writes a key. No two keys of one By share a name.
func (by By) name(k key) string {
	switch by {
	case Source:
		if k[1] != "" {
			return part(k[0]) + "/" + part(k[1])
		}
	case Object:
		if k[1] != "" {
			return part(k[0]) + " " + part(k[1]) + "/" + part(k[2])
		}
		return part(k[0]) + " " + part(k[2])
	case Reason:
		return part(k[0]) + " " + part(k[1])
	case Policy:
		return k[0] // a kind, a namespace and a name that the API server took
	case Namespace:
	}
	return part(k[0])
}

// part is s, quoted where it is empty, contains a separator or looks quoted, or where a terminal could not print it.
func part(s string) string {
	odd := func(r rune) bool { return r == ' ' || r == '/' || !strconv.IsPrint(r) }
	if s == "" || s[0] == '"' || strings.ContainsFunc(s, odd) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}
