package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// byQuota is the list of buckets; all others are a busiest.Dimension.
const byQuota = "quota"

// selection is the list that the page shows, of what, and by which column it is sorted.
type selection struct {
	by, sort string
	filter   live.Filter
}

// sorts are the columns to sort by. Buckets are by how empty they are unless it is by dropped.
func sorts() []string { return []string{"total", "admitted", "merged", "dropped"} }

// parseSelection reads the query of a URL.
func parseSelection(raw string) (s selection, err error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return s, errors.New("the query is malformed")
	}
	s = selection{cmp.Or(query.Get("by"), string(busiest.Namespace)), cmp.Or(query.Get("sort"), sorts()[0]), live.Filter{
		Namespace: query.Get("namespace"), Source: query.Get("source"), Reason: query.Get("reason"), Policy: query.Get("policy"),
	}}
	lists := []string{byQuota}
	for _, by := range busiest.Dimensions() {
		lists = append(lists, string(by))
	}
	if !slices.Contains(lists, s.by) {
		return s, fmt.Errorf("by: must be one of %s", strings.Join(lists, ", "))
	}
	if !slices.Contains(sorts(), s.sort) {
		return s, fmt.Errorf("sort: must be one of %s", strings.Join(sorts(), ", "))
	}
	return s, nil
}

// message is what the page is told of a View.
type message struct {
	At       time.Time  `json:"at"`
	Seconds  float64    `json:"seconds"` // 0 where there are no rates
	Problem  string     `json:"problem,omitempty"`
	Scope    string     `json:"scope,omitempty"` // the only namespace
	Replicas int        `json:"replicas"`
	Silent   int        `json:"silent"` // of them, those that do not report
	Partial  bool       `json:"partial"`
	Rates    live.Rates `json:"rates"`
	// Refusing are buckets that refuse Events, and Next those that will at this rate, the first ones first.
	Refusing []live.Bucket `json:"refusing"`
	Next     []live.Bucket `json:"next"`
	Timeline []live.Point  `json:"timeline"`
	Rows     []row         `json:"rows"`
	More     int           `json:"more"`   // rows that are not shown
	Others   int64         `json:"others"` // writes that are in no row
}

// row is a row of the list. Into is what the page shows when it is opened, by the names of parts of its address.
type row struct {
	Key    string            `json:"key"`
	Name   string            `json:"name"`
	Into   map[string]string `json:"into,omitempty"`
	Bucket *live.Bucket      `json:"bucket,omitempty"`
	live.Figures
}

// Bounds of what the page shows.
const (
	maxRows         = 200
	maxNext         = 10
	emptySoonWithin = time.Hour // for which a rate is believed
)

// messageFor is what s shows of a View.
func (s *selection) messageFor(v *live.View) message {
	m := message{
		At: v.At, Seconds: v.Seconds, Problem: v.Problem, Scope: v.Namespace, Replicas: len(v.Replicas), Partial: v.Partial, Rates: v.Rates,
		Timeline: v.Timeline, Rows: s.rows(v),
	}
	for _, r := range v.Replicas {
		if r.Silent {
			m.Silent++
		}
	}
	m.Refusing, m.Next = splitRefusing(v.Buckets)
	if s.filter == (live.Filter{}) {
		ranking := v.Rankings[busiest.Dimension(s.by)]
		m.Others = ranking.Others
	}
	m.More = max(0, len(m.Rows)-maxRows)
	m.Rows = m.Rows[:min(maxRows, len(m.Rows))]
	return m
}

// splitRefusing are the buckets that refuse Events, and those that will soon.
func splitRefusing(all []live.Bucket) (now, next []live.Bucket) {
	now, next = []live.Bucket{}, []live.Bucket{}
	for _, b := range all {
		switch {
		case b.Refuses:
			now = append(now, b)
		case b.EmptyIn != nil && *b.EmptyIn < emptySoonWithin.Seconds():
			next = append(next, b)
		}
	}
	slices.SortStableFunc(now, func(a, b live.Bucket) int { return cmp.Compare(b.Rates.Dropped, a.Rates.Dropped) })
	slices.SortStableFunc(next, func(a, b live.Bucket) int { return cmp.Compare(*a.EmptyIn, *b.EmptyIn) })
	return now[:min(maxNext, len(now))], next[:min(maxNext, len(next))]
}

// rows are those of the list, sorted.
func (s *selection) rows(v *live.View) []row {
	rows := []row{}
	switch s.by {
	case byQuota:
		rows = s.buckets(v)
	case string(busiest.Object):
		for _, o := range v.ObjectsOf(s.filter.Namespace, s.filter.Source) {
			into := s.drillDown(busiest.Object, "")
			into["kind"], into["in"], into["name"] = o.Kind, cmp.Or(o.Namespace, "default"), o.Name // where Events about objects of the cluster are
			rows = append(rows, row{Key: o.Row, Name: o.Title(), Figures: o.Figures, Into: into})
		}
	default:
		for _, r := range v.Rows(busiest.Dimension(s.by), s.filter) {
			rows = append(rows, row{Key: r.Name, Name: r.Name, Figures: r.Figures, Into: s.drillDown(busiest.Dimension(s.by), r.Name)})
		}
	}
	if s.by != byQuota || s.sort == "dropped" {
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(columnRate(b.Rates, s.sort), columnRate(a.Rates, s.sort)) })
	}
	return rows
}

func columnRate(r live.Rates, by string) float64 {
	return map[string]float64{"admitted": r.Admitted, "merged": r.Merged, "dropped": r.Dropped, "total": r.Decided()}[by]
}

// drillDown leads from a namespace to its sources, from a source to its objects, and from a reason or policy to the sources
// that write so.
func (s *selection) drillDown(by busiest.Dimension, name string) map[string]string {
	f, to := s.filter, busiest.Source
	switch by {
	case busiest.Namespace:
		f.Namespace = name
	case busiest.Source:
		f.Source, to = name, busiest.Object
	case busiest.Reason:
		f.Reason = name
	case busiest.Policy:
		f.Policy = name
	case busiest.Object:
		to = busiest.Object
	}
	place := map[string]string{"by": string(to)}
	for name, value := range map[string]string{"namespace": f.Namespace, "source": f.Source, "reason": f.Reason, "policy": f.Policy} {
		if value != "" {
			place[name] = value
		}
	}
	return place
}

// buckets are those that the filter does not exclude. One that several namespaces share is in each.
func (s *selection) buckets(v *live.View) []row {
	rows := []row{}
	for _, b := range v.BucketsOf(s.filter) {
		name := b.Title()
		r := row{Key: name, Name: name, Figures: b.Figures, Bucket: b}
		if b.Namespace != "" {
			r.Into = map[string]string{"by": string(busiest.Source), "namespace": b.Namespace}
		}
		rows = append(rows, r)
	}
	return rows
}
