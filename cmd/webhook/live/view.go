package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// View is what happened since an earlier look, and what has happened since the replicas began to count. Names of rows
// are safe to print; those of Objects are not.
type View struct {
	// At is the time of the look, and Seconds since when Rates are; 0 where there is nothing to compare with: at the
	// first look, and whenever replicas have come or gone.
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	// Problem is why the last look has failed; all else is from the one before, and At is older. Empty if it has not.
	Problem string `json:"problem,omitempty"`
	// Namespace is the only one that this is about; empty for all.
	Namespace string    `json:"namespace,omitempty"`
	Replicas  []Replica `json:"replicas"`
	// Partial says that there may be more replicas, which could not be asked.
	Partial bool `json:"partial"`
	// Rates and Total are of all writes.
	Rates Rates          `json:"rates"`
	Total busiest.Counts `json:"total"`
	// Rankings have rows with the highest rates first, and of those without the highest totals.
	Rankings map[busiest.Dimension]Ranking `json:"rankings"`
	// Details and Objects are in the same order.
	Details []Detail `json:"details"`
	Objects []Object `json:"objects"`
	// Buckets are those of quotas, the emptiest first.
	Buckets []Bucket `json:"buckets"`
	// Timeline has the last looks, the oldest first, this one at its end.
	Timeline []Point `json:"timeline"`
}

// Replica is one that has counted. Silent says that it has not reported for 10 seconds: it has stopped, or cannot.
type Replica struct {
	busiest.Replica

	Silent bool `json:"silent"`
}

// silentAfter is after how many reports that are missing a replica is silent.
const silentAfter = 10 * time.Second

// Rates are Event writes a second by what became of them. Settled are the counts and notices that eventquota itself
// wrote, which are known of all namespaces together only.
type Rates struct {
	Admitted float64 `json:"admitted"`
	Merged   float64 `json:"merged"`
	Dropped  float64 `json:"dropped"`
	Settled  float64 `json:"settled,omitempty"`
}

// Decided is the rate of all.
func (r Rates) Decided() float64 { return r.Admitted + r.Merged + r.Dropped }

func (r Rates) add(o Rates) Rates {
	return Rates{r.Admitted + o.Admitted, r.Merged + o.Merged, r.Dropped + o.Dropped, r.Settled + o.Settled}
}

// Figures are rates, and counts since the replicas began.
type Figures struct {
	Rates Rates          `json:"rates"`
	Total busiest.Counts `json:"total"`
}

func (f Figures) add(o Figures) Figures { return Figures{f.Rates.add(o.Rates), f.Total.Add(o.Total)} }

// compare puts the busiest first.
func (f Figures) compare(o Figures) int {
	return cmp.Or(cmp.Compare(o.Rates.Decided(), f.Rates.Decided()), cmp.Compare(o.Total.Matched(), f.Total.Matched()))
}

// Row is one namespace, source, object, reason or policy.
type Row struct {
	Name string `json:"name"`
	Figures
}

// Ranking is all rows of a kind. Others are writes that are in none, as there are too many to follow.
type Ranking struct {
	Rows   []Row `json:"rows"`
	Others int64 `json:"others"`
}

// Detail is what one source wrote to one namespace, of one type and reason, and decided by one policy or quota.
type Detail struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Reason    string `json:"reason"`
	Policy    string `json:"policy"`
	Figures
}

// Object is an object with Events. Source made more than half of them, if one source did.
type Object struct {
	Row       string `json:"row"` // its name in the ranking
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Workload is what it belongs to, if that is known, and safe to print as Row is.
	Workload string `json:"workload,omitempty"`
	Source   string `json:"source"`
	Figures
}

// Title names the object, and what it belongs to if that is known.
func (o *Object) Title() string {
	if o.Workload == "" {
		return o.Row
	}
	return o.Row + " of " + o.Workload
}

// Bucket is a token bucket of a quota.
type Bucket struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	For    string `json:"for,omitempty"`
	// Namespace is the only one whose Events use it; empty where several may.
	Namespace string `json:"namespace,omitempty"`
	// Source used more than half of its tokens, if one source did.
	Source string `json:"source"`
	// Tokens are those that are left of Burst, absent where the store did not say; Reserve is how many of them are for
	// Warnings only. PerSecond of them come back.
	Tokens    *int    `json:"tokens,omitempty"`
	Burst     int     `json:"burst"`
	Reserve   int     `json:"reserve,omitempty"`
	PerSecond float64 `json:"perSecond"`
	// EmptyIn is in how many seconds it is empty at this rate; absent where it does not become emptier.
	EmptyIn *float64 `json:"emptyIn,omitempty"`
	// Refuses says that Events were just refused, or the next Normal ones will be: it is empty but for its reserve.
	Refuses bool `json:"refuses"`
	// Figures count what has taken a token as admitted, and what found none as dropped.
	Figures
}

// Title names a bucket: its limit, what it is for, and the policy or quota that it is of.
func (b *Bucket) Title() string {
	title := b.Name
	if b.For != "" {
		title += " of " + b.For
	}
	return title + ": " + b.Policy
}

// BucketsOf are the buckets that a Filter does not exclude, the emptiest first. One that several namespaces share is in
// each.
func (v *View) BucketsOf(f Filter) (found []*Bucket) {
	for i := range v.Buckets {
		b := &v.Buckets[i]
		if (f.Namespace == "" || b.Namespace == "" || f.Namespace == b.Namespace) &&
			(f.Source == "" || f.Source == b.Source) && (f.Policy == "" || f.Policy == b.Policy) {
			found = append(found, b)
		}
	}
	return found
}

// FillRatio is the part of a bucket that is left, from 0 to 1; 1 where the store did not say.
func (b *Bucket) FillRatio() float64 {
	if b.Tokens == nil || b.Burst <= 0 {
		return 1
	}
	return float64(*b.Tokens) / float64(b.Burst)
}

// Point is one look. Seconds is 0 where its rates are not known.
type Point struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Rates   Rates     `json:"rates"`
}

// Sources are the sources that write to a namespace, the busiest first.
func (v *View) Sources(namespace string) []Row {
	return v.Rows(busiest.Source, Filter{Namespace: namespace})
}

// Reasons are the types and reasons that a source writes to a namespace, the busiest first. Either may be empty for all.
func (v *View) Reasons(namespace, source string) []Row {
	return v.Rows(busiest.Reason, Filter{Namespace: namespace, Source: source})
}

// ObjectsOf are the objects in a namespace that a source writes most about, the busiest first. Either may be empty for
// all. Objects of the cluster are in each namespace.
func (v *View) ObjectsOf(namespace, source string) (found []Object) {
	for _, o := range v.Objects {
		if (namespace == "" || o.Namespace == namespace || o.Namespace == "") && (source == "" || o.Source == source) {
			found = append(found, o)
		}
	}
	return found
}

// sum adds up details by a name, of those that are wanted.
func (v *View) sum(by func(*Detail) (name string, wanted bool)) (rows []Row) {
	at := map[string]int{}
	for i := range v.Details {
		d := &v.Details[i]
		name, wanted := by(d)
		if !wanted {
			continue
		}
		n, known := at[name]
		if !known {
			n, at[name] = len(rows), len(rows)
			rows = append(rows, Row{Name: name})
		}
		rows[n].Figures = rows[n].add(d.Figures)
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func compareRows(a, b Row) int { return cmp.Or(a.compare(b.Figures), strings.Compare(a.Name, b.Name)) }

// Filter selects what has these names; those that are empty select all.
type Filter struct{ Namespace, Source, Reason, Policy string }

func (f Filter) selects(d *Detail) bool {
	return (f.Namespace == "" || f.Namespace == d.Namespace) && (f.Source == "" || f.Source == d.Source) &&
		(f.Reason == "" || f.Reason == d.Reason) && (f.Policy == "" || f.Policy == d.Policy)
}

// Rows are the namespaces, sources, reasons or policies of what a Filter selects, the busiest first.
func (v *View) Rows(by busiest.Dimension, f Filter) []Row {
	if f == (Filter{}) {
		return v.Rankings[by].Rows
	}
	return v.sum(func(d *Detail) (string, bool) {
		return map[busiest.Dimension]string{
			busiest.Namespace: d.Namespace, busiest.Source: d.Source, busiest.Reason: d.Reason, busiest.Policy: d.Policy,
		}[by], f.selects(d)
	})
}
