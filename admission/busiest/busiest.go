// Package busiest counts decisions, and finds the namespaces, sources, objects, reasons and rules with the most Event writes. Each
// replica counts in bounded memory from its start, and shares Snapshots through Redis. A Sum adds up those of all replicas;
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

// Dimension is a property of a write that writes are counted by.
type Dimension string

// Writes are counted by each Dimension separately.
const (
	Namespace Dimension = "namespace" // of the Event
	Source    Dimension = "source"    // component and host
	Object    Dimension = "object"    // kind, namespace and name of the involvedObject
	Reason    Dimension = "reason"    // type and reason
	Policy    Dimension = "policy"    // the policy or quota that decided
)

// Dimensions returns all Dimensions.
func Dimensions() []Dimension { return []Dimension{Namespace, Source, Object, Reason, Policy} }

// Row counts the writes of one namespace, source, object, reason or rule. Its counts are never too high; their total may be too
// low by up to the Others of its ranking.
type Row struct {
	Name string `json:"name"`
	Counts
}

// Ranking has the counts of one Dimension.
type Ranking struct {
	// Total is exact.
	Total Counts `json:"total"`
	// Rows have distinct names. In a Sum they are sorted by their totals, highest first.
	Rows []Row `json:"rows"`
}

// Others returns the number of writes that are in no row: their keys were not tracked at the time.
func (r *Ranking) Others() int64 {
	others := r.Total.Matched()
	for _, row := range r.Rows {
		others -= row.Matched()
	}
	return others
}

// Replica is a replica that counted from Since to At, by its own clock.
type Replica struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
}

// Snapshot has all counts of one replica since its start. It replaces the replica's earlier snapshot.
type Snapshot struct {
	Replica   Replica               `json:"replica"`
	Rankings  map[Dimension]Ranking `json:"by"`
	Breakdown Breakdown             `json:"within,omitzero"`
	// Rules are the counts for the statuses of rules. Decisions of rules in audit mode count only here.
	Rules []RuleCounts `json:"rules,omitempty"`
}

// All returns the rankings until now. They may differ from each other by writes that are being counted.
func (r *RankingCounter) All() map[Dimension]Ranking {
	all := map[Dimension]Ranking{}
	for by, counted := range r.by {
		rows, total := counted.snapshot()
		ranking := Ranking{Total: total, Rows: make([]Row, len(rows))}
		for i, row := range rows {
			ranking.Rows[i] = Row{by.rowName(row.key), row.Counts}
		}
		all[by] = ranking
	}
	return all
}

// Snapshot returns all counts until now. Rankings may differ from each other by writes that are being counted.
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

// MaxRows bounds the rows of one ranking in a Sum.
const MaxRows = 1000

// Sum adds up the rankings of several replicas.
type Sum struct {
	// Replicas are sorted by name.
	Replicas []Replica `json:"replicas"`
	// Partial is true if the counts of other replicas may be missing, because they could not be read.
	Partial  bool                  `json:"partial"`
	Rankings map[Dimension]Ranking `json:"by"`
}

// NewSum adds up snapshots of different replicas. Each ranking keeps the MaxRows rows with the highest totals.
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

// sumRankings adds up rows with the same name.
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

// compareRows orders rows by writes, most first, and then by name.
func compareRows(a, b *Row) int {
	return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), strings.Compare(a.Name, b.Name))
}

// key identifies a row of a Ranking by the parts of its name. Unused parts at the end are empty.
type key [3]string

// rowName returns the name for a key. Different keys of a Dimension have different names.
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
		return k[0] // a kind, a namespace and a name that the API server accepted
	case Namespace:
	}
	return quotePart(k[0])
}

// quotePart quotes s if it is empty, contains a separator, looks quoted, or cannot be printed on a terminal.
func quotePart(s string) string {
	needsQuotes := func(r rune) bool { return r == ' ' || r == '/' || !strconv.IsPrint(r) }
	if s == "" || s[0] == '"' || strings.ContainsFunc(s, needsQuotes) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}

// snapshot returns the rows and the exact total.
func (s *sketch[K]) snapshot() ([]row[K], Counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows), s.total
}
