package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// View has the rates since an earlier poll, and the counts since the replicas began to count. Names of rows are safe to print; those
// of Objects are not.
type View struct {
	// At is the time of the poll. Seconds is the time that Rates cover; 0 if there is nothing to compare with, as at the first poll
	// and whenever replicas started or stopped.
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	// Problem is why the last poll failed; empty if it did not. All other fields are then from the last successful poll.
	Problem string `json:"problem,omitempty"`
	// Namespace is the only namespace included; empty for all.
	Namespace string    `json:"namespace,omitempty"`
	Replicas  []Replica `json:"replicas"`
	// Partial is true if the counts of other replicas may be missing.
	Partial bool `json:"partial"`
	// Rates and Total are of all writes.
	Rates Rates          `json:"rates"`
	Total busiest.Counts `json:"total"`
	// Rankings are sorted by rate, and then by total, highest first.
	Rankings map[busiest.Dimension]Ranking `json:"rankings"`
	// Details and Objects are sorted in the same way.
	Details []Detail `json:"details"`
	Objects []Object `json:"objects"`
	// Buckets are those of quotas, the emptiest first.
	Buckets []Bucket `json:"buckets"`
	// Timeline has the last polls, oldest first, this one last.
	Timeline []Point `json:"timeline"`
}

// Replica is a replica that has counted. It is Silent if it has not shared its counts for 10 seconds: it has stopped, or cannot
// reach Redis.
type Replica struct {
	busiest.Replica

	Silent bool `json:"silent"`
}

// silentAfter is the age of its last counts at which a replica is silent.
const silentAfter = 10 * time.Second

// Rates are Event writes per second by outcome. Settled is the rate of counts and notices that eventquota itself wrote. It is only
// known for all namespaces together.
type Rates struct {
	Admitted float64 `json:"admitted"`
	Merged   float64 `json:"merged"`
	Dropped  float64 `json:"dropped"`
	Settled  float64 `json:"settled,omitempty"`
}

// Decided returns the rate of all decided writes.
func (r Rates) Decided() float64 { return r.Admitted + r.Merged + r.Dropped }

func (r Rates) add(o Rates) Rates {
	return Rates{r.Admitted + o.Admitted, r.Merged + o.Merged, r.Dropped + o.Dropped, r.Settled + o.Settled}
}

// Figures has rates, and counts since the replicas began to count.
type Figures struct {
	Rates Rates          `json:"rates"`
	Total busiest.Counts `json:"total"`
}

func (f Figures) add(o Figures) Figures { return Figures{f.Rates.add(o.Rates), f.Total.Add(o.Total)} }

// compare orders figures by rate, and then by total, highest first.
func (f Figures) compare(o Figures) int {
	return cmp.Or(cmp.Compare(o.Rates.Decided(), f.Rates.Decided()), cmp.Compare(o.Total.Matched(), f.Total.Matched()))
}

// Row has the figures of one namespace, source, object, reason or policy.
type Row struct {
	Name string `json:"name"`
	Figures
}

// Ranking has all rows of a kind. Others is the number of writes in no row, as there are too many keys to track.
type Ranking struct {
	Rows   []Row `json:"rows"`
	Others int64 `json:"others"`
}

// Detail has the figures of one source's writes to one namespace, of one type and reason, decided by one policy or quota.
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
	// Workload names the workload that the object belongs to, if it is known. It is safe to print, as Row is.
	Workload string `json:"workload,omitempty"`
	Source   string `json:"source"`
	Figures
}

// Title names the object, and its workload if it is known.
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
	// Namespace is the only one whose Events use the bucket; empty if several may.
	Namespace string `json:"namespace,omitempty"`
	// Source used more than half of its tokens, if one source did.
	Source string `json:"source"`
	// Tokens is how many of Burst are left, absent if the store did not return it. Reserve of them are for Warnings only. PerSecond
	// tokens refill each second.
	Tokens    *int    `json:"tokens,omitempty"`
	Burst     int     `json:"burst"`
	Reserve   int     `json:"reserve,omitempty"`
	PerSecond float64 `json:"perSecond"`
	// EmptyIn is the number of seconds until it is empty at this rate; absent if it does not become emptier.
	EmptyIn *float64 `json:"emptyIn,omitempty"`
	// Refuses is true if it refused Events since the last poll, or will refuse the next Normal one: only its reserve is left.
	Refuses bool `json:"refuses"`
	// Figures count writes that took a token as admitted, and writes that found none as dropped.
	Figures
}

// Title names a bucket by its limit, its scope, and its policy or quota.
func (b *Bucket) Title() string {
	title := b.Name
	if b.For != "" {
		title += " of " + b.For
	}
	return title + ": " + b.Policy
}

// BucketsOf returns the buckets that a Filter does not exclude, the emptiest first. A bucket that several namespaces share is in
// each of them.
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

// FillRatio returns the part of the bucket's tokens that is left, from 0 to 1; 1 if the store did not return it.
func (b *Bucket) FillRatio() float64 {
	if b.Tokens == nil || b.Burst <= 0 {
		return 1
	}
	return float64(*b.Tokens) / float64(b.Burst)
}

// Point is one poll. Seconds is 0 if its rates are not known.
type Point struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Rates   Rates     `json:"rates"`
}

// Sources returns the sources that write to a namespace, busiest first.
func (v *View) Sources(namespace string) []Row {
	return v.Rows(busiest.Source, Filter{Namespace: namespace})
}

// Reasons returns the types and reasons that a source writes to a namespace, busiest first. Either parameter may be empty for all.
func (v *View) Reasons(namespace, source string) []Row {
	return v.Rows(busiest.Reason, Filter{Namespace: namespace, Source: source})
}

// ObjectsOf returns the objects in a namespace that a source writes most about, busiest first. Either parameter may be empty for
// all. Cluster-scoped objects are in each namespace.
func (v *View) ObjectsOf(namespace, source string) (found []Object) {
	for _, o := range v.Objects {
		if (namespace == "" || o.Namespace == namespace || o.Namespace == "") && (source == "" || o.Source == source) {
			found = append(found, o)
		}
	}
	return found
}

// sum adds up the selected details by name.
func (v *View) sum(by func(*Detail) (name string, selected bool)) (rows []Row) {
	index := map[string]int{}
	for i := range v.Details {
		d := &v.Details[i]
		name, selected := by(d)
		if !selected {
			continue
		}
		n, known := index[name]
		if !known {
			n, index[name] = len(rows), len(rows)
			rows = append(rows, Row{Name: name})
		}
		rows[n].Figures = rows[n].add(d.Figures)
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func compareRows(a, b Row) int { return cmp.Or(a.compare(b.Figures), strings.Compare(a.Name, b.Name)) }

// Filter selects details by these names. An empty name selects all.
type Filter struct{ Namespace, Source, Reason, Policy string }

func (f Filter) selects(d *Detail) bool {
	return (f.Namespace == "" || f.Namespace == d.Namespace) && (f.Source == "" || f.Source == d.Source) &&
		(f.Reason == "" || f.Reason == d.Reason) && (f.Policy == "" || f.Policy == d.Policy)
}

// Rows returns the namespaces, sources, reasons or policies of the details that a Filter selects, busiest first.
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
