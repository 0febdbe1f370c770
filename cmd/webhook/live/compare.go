package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
)

// sameReplicas reports whether two samples are of the same replicas, so that their counts can be compared.
func sameReplicas(before, now *busiest.Sum) bool {
	return before.Partial == now.Partial && slices.EqualFunc(before.Replicas, now.Replicas, func(a, b busiest.Replica) bool { return a.Name == b.Name })
}

// delta compares two samples. They are the same sample if there is nothing to compare with.
type delta struct {
	before, now *sample
	seconds     float64
}

// rates returns the growth of counts per second.
func (d *delta) rates(before, now busiest.Counts) Rates {
	if d.seconds == 0 {
		return Rates{}
	}
	grown := now.Since(before)
	return Rates{Admitted: float64(grown.Admitted) / d.seconds, Merged: float64(grown.Merged) / d.seconds, Dropped: float64(grown.Dropped) / d.seconds}
}

// compareFigures compares items of one kind by key. A new item had no writes before, unless the earlier list was cut at MaxRows.
func compareFigures[T any, K comparable](d *delta, before, now []T, key func(*T) K, counts func(*T) busiest.Counts) []Figures {
	previous := map[K]busiest.Counts{}
	for i := range before {
		previous[key(&before[i])] = counts(&before[i])
	}
	all := make([]Figures, len(now))
	for i := range now {
		all[i].Total = counts(&now[i])
		if c, known := previous[key(&now[i])]; known || len(before) < busiest.MaxRows {
			all[i].Rates = d.rates(c, all[i].Total)
		}
	}
	return all
}

// newView compares two samples.
func newView(before, now *sample) View {
	d := &delta{before, now, now.at.Sub(before.at).Seconds()}
	v := View{
		At: now.at.UTC(), Seconds: d.seconds, Namespace: now.Namespace, Partial: now.Partial,
		Replicas: replicasOf(now), Rankings: map[busiest.Dimension]Ranking{},
		Total: now.Rankings[busiest.Namespace].Total,
	}
	v.Rates = d.rates(before.Rankings[busiest.Namespace].Total, v.Total)
	if d.seconds > 0 {
		v.Rates.Settled = float64(max(0, now.Writes-before.Writes)) / d.seconds
	}
	for _, by := range busiest.Dimensions() {
		v.Rankings[by] = d.ranking(by)
	}
	v.Details, v.Objects, v.Buckets = d.details(), d.objects(v.Rankings[busiest.Object].Rows), d.buckets()
	return v
}

func replicasOf(now *sample) []Replica {
	var newest time.Time
	for _, r := range now.Replicas {
		if r.At.After(newest) {
			newest = r.At
		}
	}
	all := make([]Replica, len(now.Replicas))
	for i, r := range now.Replicas {
		all[i] = Replica{r, newest.Sub(r.At) > silentAfter}
	}
	return all
}

func (d *delta) ranking(by busiest.Dimension) Ranking {
	ranking := d.now.Rankings[by]
	figures := compareFigures(d, d.before.Rankings[by].Rows, ranking.Rows,
		func(r *busiest.Row) string { return r.Name }, func(r *busiest.Row) busiest.Counts { return r.Counts })
	rows := make([]Row, len(figures))
	for i := range figures {
		rows[i] = Row{ranking.Rows[i].Name, figures[i]}
	}
	slices.SortFunc(rows, compareRows)
	return Ranking{rows, ranking.Others()}
}

func (d *delta) details() []Detail {
	type key [4]string
	figures := compareFigures(d, d.before.Details, d.now.Details,
		func(d *busiest.Detail) key { return key{d.Namespace, d.Source, d.Reason, d.Policy} }, func(d *busiest.Detail) busiest.Counts { return d.Counts })
	all := make([]Detail, len(figures))
	for i, detail := range d.now.Details {
		all[i] = Detail{detail.Namespace, detail.Source, detail.Reason, detail.Policy, figures[i]}
	}
	slices.SortStableFunc(all, func(a, b Detail) int { return a.compare(b.Figures) })
	return all
}

// objects returns the objects of rows.
func (d *delta) objects(rows []Row) []Object {
	involved := map[string]*busiest.InvolvedObject{}
	for i := range d.now.Objects {
		o := &d.now.Objects[i]
		involved[o.RowName()] = o
	}
	all := make([]Object, 0, len(rows))
	for _, row := range rows {
		if o := involved[row.Name]; o != nil {
			all = append(all, Object{row.Name, o.Kind, o.Namespace, o.Name, o.Workload, o.Source, row.Figures})
		}
	}
	return all
}

func (d *delta) buckets() []Bucket {
	figures := compareFigures(d, d.before.Buckets, d.now.Buckets,
		func(b *busiest.Bucket) [16]byte { return b.Key }, func(b *busiest.Bucket) busiest.Counts { return b.Counts })
	all := make([]Bucket, len(figures))
	for i := range d.now.Buckets {
		all[i] = newBucket(&d.now.Buckets[i], figures[i])
	}
	slices.SortStableFunc(all, func(a, b Bucket) int {
		return cmp.Or(cmp.Compare(a.FillRatio(), b.FillRatio()), cmp.Compare(b.Rates.Dropped, a.Rates.Dropped), a.compare(b.Figures),
			strings.Compare(a.Policy, b.Policy), strings.Compare(a.Name, b.Name), strings.Compare(a.For, b.For))
	})
	return all
}

func newBucket(b *busiest.Bucket, f Figures) Bucket {
	bucket := Bucket{
		Policy: b.Policy, Name: b.Name, For: b.Scope, Namespace: b.Namespace, Source: b.Source,
		Tokens: b.Tokens, Burst: b.Limit.Burst, Reserve: b.Limit.Reserve, Figures: f,
		Refuses: f.Rates.Dropped > 0 || b.Tokens != nil && *b.Tokens <= b.Limit.Reserve,
	}
	if b.Limit.Every > 0 {
		bucket.PerSecond = float64(time.Second) / float64(b.Limit.Every)
	}
	if drains := f.Rates.Admitted - bucket.PerSecond; b.Tokens != nil && drains > 0 {
		bucket.EmptyIn = new(float64(max(0, *b.Tokens-b.Limit.Reserve)) / drains)
	}
	return bucket
}
