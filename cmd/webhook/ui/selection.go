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

// byQuota selects the list of buckets. All other lists are named by a busiest.Dimension.
const byQuota = "quota"

// selection is the list that the page shows, its sort column, and its filter.
type selection struct {
	by, sort string
	filter   live.Filter
}

// sorts returns the columns to sort by. Buckets are sorted by dropped, or else the emptiest first.
func sorts() []string { return []string{"total", "admitted", "merged", "dropped"} }

// parseSelection parses the query of a URL.
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

// message is the part of a View that the page shows.
type message struct {
	At       time.Time  `json:"at"`
	Seconds  float64    `json:"seconds"` // 0 if there are no rates
	Problem  string     `json:"problem,omitempty"`
	Scope    string     `json:"scope,omitempty"` // the only namespace
	Replicas int        `json:"replicas"`
	Silent   int        `json:"silent"` // how many of Replicas do not share their counts
	Partial  bool       `json:"partial"`
	Rates    live.Rates `json:"rates"`
	// Refusing are the buckets that refuse Events, most refused first. Next are those that will at this rate, soonest first.
	Refusing []live.Bucket `json:"refusing"`
	Next     []live.Bucket `json:"next"`
	Timeline []live.Point  `json:"timeline"`
	Rows     []row         `json:"rows"`
	More     int           `json:"more"`   // rows that are not shown
	Others   int64         `json:"others"` // writes in no row
}

// row is a row of the list. Into has the parameters of the address that it opens.
type row struct {
	Key    string            `json:"key"`
	Name   string            `json:"name"`
	Into   map[string]string `json:"into,omitempty"`
	Bucket *live.Bucket      `json:"bucket,omitempty"`
	live.Figures
}

// Bounds of a message.
const (
	maxRows         = 200
	maxNext         = 10
	emptySoonWithin = time.Hour // how far ahead a rate is extrapolated
)

// messageFor returns the part of a View that s shows.
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

// splitRefusing returns the buckets that refuse Events now, and those that will soon.
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

// rows returns the sorted rows of the list.
func (s *selection) rows(v *live.View) []row {
	rows := []row{}
	switch s.by {
	case byQuota:
		rows = s.buckets(v)
	case string(busiest.Object):
		for _, o := range v.ObjectsOf(s.filter.Namespace, s.filter.Source) {
			into := s.drillDown(busiest.Object, "")
			into["kind"], into["in"], into["name"] = o.Kind, cmp.Or(o.Namespace, "default"), o.Name // default has the Events about cluster-scoped objects
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

// drillDown returns the address that a row opens: the sources of a namespace, the objects of a source, and the sources of a reason or
// policy.
func (s *selection) drillDown(by busiest.Dimension, name string) map[string]string {
	f, target := s.filter, busiest.Source
	switch by {
	case busiest.Namespace:
		f.Namespace = name
	case busiest.Source:
		f.Source, target = name, busiest.Object
	case busiest.Reason:
		f.Reason = name
	case busiest.Policy:
		f.Policy = name
	case busiest.Object:
		target = busiest.Object
	}
	place := map[string]string{"by": string(target)}
	for name, value := range map[string]string{"namespace": f.Namespace, "source": f.Source, "reason": f.Reason, "policy": f.Policy} {
		if value != "" {
			place[name] = value
		}
	}
	return place
}

// buckets returns the rows of the buckets that the filter does not exclude. A bucket that several namespaces share is in each of them.
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
