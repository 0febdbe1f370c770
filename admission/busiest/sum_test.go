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

func TestSumAddsAllReplicas(t *testing.T) {
	a, b := busiest.NewCounter("a", epoch(), busiest.MaxTracked), busiest.NewCounter("b", epoch().Add(time.Minute), busiest.MaxTracked)
	a.CountDecision(write(0).decided(store.Admit))
	for range 3 {
		b.CountDecision(write(0).decided(store.Merge))
		b.CountDecision(write(1).decided(store.Drop))
	}
	sum := busiest.NewSum([]busiest.Snapshot{b.Snapshot(epoch()), a.Snapshot(epoch())})
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
	if got := sum.Rankings[busiest.Source]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSumIsNeverTooHighAndIsBounded(t *testing.T) {
	const replicas, writes = 12, 10 * busiest.MaxTracked
	r := rand.New(rand.NewPCG(3, 4))
	model := exactCounts{}
	var all []busiest.Snapshot
	for replica := range replicas {
		c := busiest.NewCounter(fmt.Sprint(replica), epoch(), busiest.MaxTracked)
		objects := []int{100, 300, 3000, 30000}[replica%4]
		for range writes {
			w := write(int(float64(objects) * r.Float64() * r.Float64() * r.Float64()))
			c.CountDecision(w.decided(store.Drop))
			model.count(w, store.Drop)
		}
		all = append(all, c.Snapshot(epoch()))
	}
	ranking := busiest.NewSum(all).Rankings[busiest.Object]
	model.check(t, ranking, replicas*writes)
	if ranking.Total.Dropped != replicas*writes || len(ranking.Rows) != busiest.MaxRows {
		t.Errorf("a total of %+v in %d rows", ranking.Total, len(ranking.Rows))
	}
}
