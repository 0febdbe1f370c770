package busiest_test

import (
	"encoding/json"
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

func TestASumSaysByHowMuchItMayBeWrong(t *testing.T) {
	const replicas, writes = 8, 10 * busiest.Places
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
	model.check(t, ranking)
	if ranking.Total.Dropped != replicas*writes || ranking.Missing == 0 {
		t.Errorf("a total of %+v, and %d may be missing", ranking.Total, ranking.Missing)
	}
}

// What all replicas follow without a gap misses nothing, whatever else they lost.
func TestARowMissesOnlyWhatItsReplicasMayHaveLost(t *testing.T) {
	row := func(name string, missing int64) busiest.Row {
		return busiest.Row{Name: name, Counts: busiest.Counts{Merged: 50}, Missing: missing}
	}
	snapshot := func(replica string, missing int64, rows ...busiest.Row) busiest.Snapshot {
		return busiest.Snapshot{
			Replica: busiest.Replica{Name: replica},
			By:      map[busiest.By]busiest.Ranking{busiest.Object: {Missing: missing, Rows: rows}},
		}
	}
	ranking := busiest.Add([]busiest.Snapshot{
		snapshot("a", 7, row("everywhere", 0), row("late", 5), row("here", 0)),
		snapshot("b", 9, row("everywhere", 0), row("late", 1)),
	}).By[busiest.Object]
	for name, want := range map[string]int64{"everywhere": 0, "late": 6, "here": 9} {
		if got := rowOf(ranking, name).Missing; got != want {
			t.Errorf("%q misses up to %d, want %d", name, got, want)
		}
	}
	if ranking.Missing != 16 {
		t.Errorf("others miss up to %d, want 16", ranking.Missing)
	}
}

func TestASumHasAThousandRowsAtTheMost(t *testing.T) {
	model := truth{}
	var all []busiest.Snapshot
	for replica := range 5 {
		c := busiest.NewCounter(fmt.Sprint(replica), epoch(), busiest.Places)
		for n := range busiest.Places {
			for range 1 + (n+replica)%3 {
				w := write(replica*busiest.Places + n)
				c.Decided(w.decided(store.Merge))
				model.count(w, store.Merge)
			}
		}
		all = append(all, c.Snapshot(epoch()))
	}
	ranking := busiest.Add(all).By[busiest.Object]
	if len(ranking.Rows) != busiest.MaxRows {
		t.Errorf("%d rows, want %d", len(ranking.Rows), busiest.MaxRows)
	}
	model.check(t, ranking)
}

func TestTheSumOfNothingIsNothing(t *testing.T) {
	got, err := json.Marshal(busiest.Add(nil))
	none := `{"total":{"admitted":0,"merged":0,"dropped":0},"missing":0,"rows":[]}`
	want := `{"replicas":[],"partial":false,"by":{"namespace":` + none + `,"object":` + none + `,"policy":` + none + `,"reason":` + none + `,"source":` + none + `}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestJSONIsReadAsItWasWritten(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range 300 {
		c.Decided(write(n).decided(store.Admit))
	}
	sum := busiest.Add([]busiest.Snapshot{c.Snapshot(epoch())})
	text, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	var read busiest.Sum
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, sum) {
		t.Errorf("%+v, %v; want %+v", read, err, sum)
	}
}
