package busiest_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

func TestASumHasTheWritesOfAllReplicas(t *testing.T) {
	a, b := busiest.NewCounter("a", epoch(), busiest.Places), busiest.NewCounter("b", epoch().Add(time.Minute), busiest.Places)
	a.Decided(write(0).decided(store.Admit))
	for range 3 {
		b.Decided(write(0).decided(store.Merge))
		b.Decided(write(1).decided(store.Drop))
	}
	sum := busiest.Add([]busiest.Snapshot{b.Snapshot(epoch()), a.Snapshot(epoch())})
	if len(sum.Replicas) != 2 || sum.Replicas[0].Name != "a" || sum.Replicas[1].Since != epoch().Add(time.Minute) {
		t.Errorf("replicas %+v", sum.Replicas)
	}
	want := busiest.Ranking{
		Total: busiest.Counts{Admitted: 1, Merged: 3, Dropped: 3},
		Rows: []busiest.Row{
			{Name: "kubelet/node-0", Counts: busiest.Counts{Admitted: 1, Merged: 3}},
			{Name: "kubelet/node-1", Counts: busiest.Counts{Dropped: 3}},
		},
	}
	if got := sum.By[busiest.Source]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestASumIsNeverTooHighAndHasAThousandRowsAtTheMost(t *testing.T) {
	const replicas, writes = 12, 10 * busiest.Places
	r := rand.New(rand.NewPCG(3, 4))
	model := truth{}
	var all []busiest.Snapshot
	for replica := range replicas {
		c := busiest.NewCounter(fmt.Sprint(replica), epoch(), busiest.Places)
		objects := []int{100, 300, 3000, 30000}[replica%4]
		for range writes {
			w := write(int(float64(objects) * r.Float64() * r.Float64() * r.Float64()))
			c.Decided(w.decided(store.Drop))
			model.count(w, store.Drop)
		}
		all = append(all, c.Snapshot(epoch()))
	}
	ranking := busiest.Add(all).By[busiest.Object]
	model.check(t, ranking, replicas*writes)
	if ranking.Total.Dropped != replicas*writes || len(ranking.Rows) != busiest.MaxRows {
		t.Errorf("a total of %+v in %d rows", ranking.Total, len(ranking.Rows))
	}
}
