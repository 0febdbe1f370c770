package recommend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Options configures a proposal.
type Options struct {
	// Headroom is the ratio of the rate that the quotas admit to the usual rate, at least 1.
	Headroom float64
	// Expected, if not nil, reports whether all Events of an origin are usual, whatever their rate.
	Expected func(Origin) bool
}

// Proposal contains the proposed quotas and the data that they are based on.
type Proposal struct {
	// Headroom is that of the Options.
	Headroom float64 `json:"headroom"`
	// Usual is the number of usual Events, out of Events that take tokens. Minutes is the length of the recording.
	Usual   int64 `json:"usualEvents"`
	Events  int64 `json:"events"`
	Minutes int64 `json:"minutes"`
	// Nodes is the number of kubelets that reported Events.
	Nodes int `json:"nodes"`
	// Storms lists the storms, the largest first.
	Storms []Storm `json:"storms,omitempty"`
	// Quotas has the quotas for Normal Events and for Warnings, each followed by its exceptions.
	Quotas []Quota `json:"quotas"`
	// Observed ranks the namespaces, controllers and reasons with the most usual Events.
	Observed []Ranking `json:"observed"`

	usual *usualEvents
}

// Quota is a proposed quota.
type Quota struct {
	Name       string `json:"name"`
	Precedence int32  `json:"precedence"`
	Type       string `json:"type"`
	// Namespace or Controller is set for an exception. If both are empty, the quota is for all others.
	Namespace  string  `json:"namespace,omitempty"`
	Controller string  `json:"controller,omitempty"`
	Limits     []Limit `json:"limits"`
}

// Limit is a limit of a Quota, with the Events that were observed in its buckets.
type Limit struct {
	Name     string        `json:"name"`
	Per      []string      `json:"per"`
	Burst    int32         `json:"burst"`
	Tokens   int32         `json:"tokens"`
	Interval time.Duration `json:"-"`
	Every    string        `json:"interval"` // Interval in the YAML format
	Observed Observed      `json:"observed"`
}

// Observed summarizes the usual Events in the buckets of a limit.
type Observed struct {
	// Buckets is the number of buckets with Events.
	Buckets int `json:"buckets"`
	// Median, P99 and Peak are over the buckets, of the Events in the busiest minute of each. Busiest is the bucket with the peak.
	Median  int64  `json:"medianPerMinute"`
	P99     int64  `json:"p99PerMinute"`
	Peak    int64  `json:"peakPerMinute"`
	Busiest string `json:"busiest,omitempty"`
	// Needed is the smallest burst that refuses none of these Events at the proposed refill.
	Needed int64 `json:"neededBurst"`
}

const warningType = corev1.EventTypeWarning

func typeOf(warning bool) string {
	if warning {
		return warningType
	}
	return corev1.EventTypeNormal
}

// The precedences are before those of the shipped quotas (9000 and 10000) and after the default (1000).
const precedence, ownPrecedence = 8000, 7000

// Propose sizes quotas.
func (o *Observation) Propose(opts Options) *Proposal {
	expected := opts.Expected
	if expected == nil {
		expected = func(Origin) bool { return false }
	}
	p := &Proposal{Headroom: opts.Headroom, Events: int64(len(o.events)), Minutes: int64(o.minutes()), Nodes: o.nodes}
	p.usual, p.Storms = o.findUsual(expected)
	p.Usual = int64(len(p.usual.events))
	for _, warning := range []bool{false, true} {
		p.addQuotas(warning)
	}
	p.rank()
	return p
}

// IsUsual reports whether an Event of an origin and type at a time counts as usual.
func (p *Proposal) IsUsual(from Origin, typed string, at time.Time) bool {
	return p.usual.has(sourceMinute{source{from, typed == warningType}, p.usual.o.minute(at.UnixNano())})
}

// addQuotas proposes the quotas for one type of Events.
func (p *Proposal) addQuotas(warning bool) {
	u := p.usual
	sizes := map[scope]map[bucket]size{}
	for _, s := range []scope{byReason, byNamespace, byController, clusterWide} {
		sizes[s] = u.sizes(warning, s, p.Headroom)
	}
	namespaces, controllers := ownSizes(sizes[byNamespace], byNamespace.minSize()), ownSizes(sizes[byController], byController.minSize())
	ofOwn := func(b bucket) bool { return slices.Contains(namespaces, bucket{namespace: b.namespace}) }
	ofOwnController := func(b bucket) bool { return slices.Contains(controllers, b) }
	// No single namespace or controller may use up the shared tokens. The shared limit is therefore the usual rate plus the
	// largest limit of a namespace or controller without an exception.
	one := largest(filterBuckets(sizes[byNamespace], ofOwn), byNamespace.minSize()).asLimit()
	room := map[scope]size{byController: one}
	room[clusterWide] = largest(filterBuckets(sizes[byController], ofOwnController), byController.minSize()).plus(one).asLimit()
	typed := typeOf(warning)
	general := Quota{Name: generalName(typed), Precedence: precedence, Type: typed}
	for _, s := range []scope{byReason, byNamespace, byController, clusterWide} {
		own := ofOwn
		if s == byController {
			own = ofOwnController
		}
		sized := largest(filterBuckets(sizes[s], own), s.minSize())
		general.add(u, warning, s, sized.plus(room[s]), func(b bucket) bool { return !own(b) })
	}
	p.Quotas = append(p.Quotas, general)
	for i, b := range namespaces {
		q := Quota{Name: fmt.Sprintf("%s-namespace-%d", general.Name, i+1), Precedence: ownPrecedence, Type: typed, Namespace: b.namespace}
		is := func(other bucket) bool { return other.namespace == b.namespace }
		q.add(u, warning, byReason, largest(filterBuckets(sizes[byReason], func(other bucket) bool { return !is(other) }), byReason.minSize()), is)
		q.add(u, warning, byNamespace, sizes[byNamespace][b], is)
		p.Quotas = append(p.Quotas, q)
	}
	for i, b := range controllers {
		q := Quota{Name: fmt.Sprintf("%s-controller-%d", general.Name, i+1), Precedence: ownPrecedence, Type: typed, Controller: b.controller}
		q.add(u, warning, byController, sizes[byController][b].plus(room[byController]), func(other bucket) bool { return other == b })
		p.Quotas = append(p.Quotas, q)
	}
}

func filterBuckets(all map[bucket]size, is func(bucket) bool) map[bucket]size {
	left := map[bucket]size{}
	for b, s := range all {
		if !is(b) {
			left[b] = s
		}
	}
	return left
}

// add adds a limit of a size, with the usual Events of its buckets.
func (q *Quota) add(u *usualEvents, warning bool, s scope, sized size, of func(bucket) bool) {
	l := Limit{Name: s.name(), Per: s.per()}
	l.Burst, l.Tokens, l.Interval = sized.rounded()
	l.Every = intervalText(l.Interval)
	var minutes []int64
	for b, m := range u.measure(warning, s, func(bucket) float64 { return float64(l.Tokens) / l.Interval.Seconds() }) {
		if !of(b) {
			continue
		}
		minutes = append(minutes, m.busiest)
		if name := b.String(); m.busiest > l.Observed.Peak || m.busiest == l.Observed.Peak && name < l.Observed.Busiest {
			l.Observed.Peak, l.Observed.Busiest = m.busiest, name
		}
		l.Observed.Needed = max(l.Observed.Needed, int64(m.needed+0.999))
	}
	l.Observed.Buckets, l.Observed.Median, l.Observed.P99 = len(minutes), quantile(minutes, 0, 0.5), quantile(minutes, 0, 0.99)
	q.Limits = append(q.Limits, l)
}

// Ranking ranks namespaces, controllers or reasons by their usual Events.
type Ranking struct {
	By   string `json:"by"` // namespace, controller or reason
	Rows []Row  `json:"rows"`
}

// Row is a row of a Ranking, in Events per minute of both types.
type Row struct {
	Name   string `json:"name"`
	Events int64  `json:"events"`
	Median int64  `json:"medianPerMinute"`
	P99    int64  `json:"p99PerMinute"`
	Peak   int64  `json:"peakPerMinute"`
}

// maxRows is the maximum number of rows in a Ranking.
const maxRows = 10

// rank fills p.Observed.
func (p *Proposal) rank() {
	for _, by := range []struct {
		name string
		of   func(*eventKind) string
	}{
		{"namespace", func(k *eventKind) string { return k.Namespace }},
		{"controller", func(k *eventKind) string { return k.Controller }},
		{"reason", func(k *eventKind) string { return k.reason }},
	} {
		p.Observed = append(p.Observed, Ranking{by.name, p.usual.rows(by.of)})
	}
}

func (u *usualEvents) rows(of func(*eventKind) string) (rows []Row) {
	counts := map[string]int64{}
	for _, e := range u.events {
		counts[of(&u.o.kinds[e.kind])]++
	}
	for name, n := range counts {
		rows = append(rows, Row{Name: name, Events: n})
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if a.Events != b.Events {
			return int(b.Events - a.Events)
		}
		return strings.Compare(a.Name, b.Name)
	})
	rows = rows[:min(maxRows, len(rows))]
	for i := range rows {
		rows[i].measure(u, of)
	}
	return rows
}

// measure counts the Events of a row per minute.
func (r *Row) measure(u *usualEvents, of func(*eventKind) string) {
	var minutes []int64
	last := int32(-1)
	for _, e := range u.events {
		if of(&u.o.kinds[e.kind]) != r.Name {
			continue
		}
		if minute := u.o.minute(e.at); minute != last {
			minutes, last = append(minutes, 0), minute
		}
		minutes[len(minutes)-1]++
	}
	none := int64(u.o.minutes()) - int64(len(minutes))
	r.Median, r.P99, r.Peak = quantile(minutes, none, 0.5), quantile(minutes, none, 0.99), quantile(minutes, none, 1)
}
