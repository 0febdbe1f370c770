// Package busiest counts what replicas decide, and finds who and what makes the
// most Event writes: a replica counts in bounded memory, by namespace, source,
// object, reason and policy, since it started, and shares a Snapshot with the others,
// which Redis keeps for a while. A Sum adds several up; admission/status does so
// for the statuses of policies.
package busiest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// By is what writes are counted by.
type By int

// What writes are counted by. Each is counted for itself.
const (
	Namespace By = iota // of the Event
	Source              // component and host
	Object              // kind, namespace and name of the involvedObject
	Reason              // type and reason
	Policy              // that decided

	kinds
)

// All are all values of By.
func All() [kinds]By { return [...]By{Namespace, Source, Object, Reason, Policy} }

func (b By) String() string {
	return [...]string{"namespace", "source", "object", "reason", "policy"}[b]
}

// UnmarshalText reads what String says.
func (b *By) UnmarshalText(text []byte) error {
	for _, one := range All() {
		if one.String() == string(text) {
			*b = one
			return nil
		}
	}
	return fmt.Errorf("%q is not what writes are counted by", text)
}

// MarshalText is String.
func (b By) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Row is one namespace, source, object, reason or policy. Its counts are never too high;
// Missing is by how much their total may be too low.
type Row struct {
	Name string `json:"name"`
	Counts

	Missing int64 `json:"missing"`
}

// Ranking is what was counted by one By.
type Ranking struct {
	// Total is exact.
	Total Counts `json:"total"`
	// Missing is the most writes that one who is not in Rows can have made. It is
	// 0 where all are in Rows.
	Missing int64 `json:"missing"`
	// Rows have different names, and are sorted by their totals, most first.
	Rows []Row `json:"rows"`
}

// Replica is one that has counted.
type Replica struct {
	Name string `json:"name"`
	// Since is when its counting began, by its clock.
	Since time.Time `json:"since"`
	// At is the moment of its last count, by its clock.
	At time.Time `json:"at"`
}

// Snapshot is all that one replica has counted. It replaces an earlier one.
type Snapshot struct {
	Replica Replica        `json:"replica"`
	By      map[By]Ranking `json:"by"`
	// Policies are for their statuses: what those in audit mode would have done counts there, and only there.
	Policies []PolicyCounts `json:"policies,omitempty"`
}

// MaxRows bounds the rows of one ranking of a Sum.
const MaxRows = 1000

// Sum is what several replicas have counted.
type Sum struct {
	// Replicas are sorted by their names.
	Replicas []Replica `json:"replicas"`
	// Partial says that others may have counted too, but could not be asked.
	Partial bool           `json:"partial"`
	By      map[By]Ranking `json:"by"`
}

// Add is the sum of snapshots, of which no two are of the same replica. A ranking
// has the 1000 rows with the highest totals.
func Add(snapshots []Snapshot) Sum {
	sum := Sum{Replicas: make([]Replica, 0, len(snapshots)), By: make(map[By]Ranking, kinds)}
	for _, s := range snapshots {
		sum.Replicas = append(sum.Replicas, s.Replica)
	}
	slices.SortFunc(sum.Replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	for _, by := range All() {
		sum.By[by] = addRankings(snapshots, by)
	}
	return sum
}

// addRankings adds up rows of the same name. Where a replica has none of them, it
// may have counted up to its Missing of them before they lost their place.
func addRankings(snapshots []Snapshot, by By) Ranking {
	var all Ranking
	rows := map[string]*Row{}
	for _, s := range snapshots {
		r := s.By[by]
		all.Total = all.Total.Add(r.Total)
		all.Missing += r.Missing
		for _, one := range r.Rows {
			sum := rows[one.Name]
			if sum == nil {
				sum = &Row{Name: one.Name}
				rows[one.Name] = sum
			}
			sum.Counts = sum.Add(one.Counts)
			sum.Missing += one.Missing - r.Missing // what it is more than for one that has no row
		}
	}
	all.Rows = make([]Row, 0, len(rows))
	for _, row := range rows {
		row.Missing += all.Missing
		all.Rows = append(all.Rows, *row)
	}
	all.sort()
	if len(all.Rows) > MaxRows {
		for _, row := range all.Rows[MaxRows:] {
			all.Missing = max(all.Missing, row.Matched()+row.Missing)
		}
		all.Rows = all.Rows[:MaxRows]
	}
	return all
}

// sort sorts rows by their totals, most first, and by their names.
func (r *Ranking) sort() {
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Matched(), a.Matched()), strings.Compare(a.Name, b.Name))
	})
}
