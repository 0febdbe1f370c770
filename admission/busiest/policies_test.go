package busiest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

func generation(n int) busiest.PolicyID {
	return busiest.PolicyID{UID: fmt.Sprint("uid-", n), Generation: int64(n % 3)}
}

func policies(s busiest.Snapshot) map[busiest.PolicyID]busiest.PolicyCounts {
	all := map[busiest.PolicyID]busiest.PolicyCounts{}
	for _, p := range s.Policies {
		all[p.ID] = p
	}
	return all
}

func TestPoliciesAreCountedExactlyByAnyNumberOfGoroutines(t *testing.T) {
	const writers, each = 8, busiest.PolicyPlaces * 5 / 4
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				c.CountPolicy(generation(i%busiest.PolicyPlaces), store.Merge, write(i%7).Subject)
			}
		})
	}
	all.Wait()
	got := policies(c.Snapshot(epoch()))
	for n := range busiest.PolicyPlaces {
		want := int64(0)
		for i := n; i < each; i += busiest.PolicyPlaces {
			want += writers
		}
		if p := got[generation(n)]; p.Merged != want || p.Matched() != want {
			t.Fatalf("policy %d: %+v, want %d", n, p.Counts, want)
		}
	}
}

// Beyond the bound a policy loses its place; what is said of the others is never too high.
func TestManyPoliciesAreNeverCountedTooHigh(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c, model := busiest.NewCounter("a", epoch(), busiest.Places), map[busiest.PolicyID]int64{}
	for range 4 * busiest.PolicyPlaces {
		id := generation(int(float64(10*busiest.PolicyPlaces) * r.Float64() * r.Float64() * r.Float64()))
		c.CountPolicy(id, store.Drop, busiest.Subject{Object: store.Object{Name: "web"}})
		model[id]++
	}
	got := policies(c.Snapshot(epoch()))
	if len(got) != busiest.PolicyPlaces {
		t.Errorf("%d policies, want %d", len(got), busiest.PolicyPlaces)
	}
	for id, p := range got {
		if p.Dropped > model[id] || len(p.Offenders) > 1 || len(p.Offenders) == 1 && p.Offenders[0].Dropped > p.Dropped {
			t.Fatalf("%+v, want %d at most", p, model[id])
		}
	}
}

func TestOffendersAreThoseWhoAreRefused(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	id := generation(1)
	long := strings.Repeat("x", busiest.MaxPart+1)
	c.CountPolicy(id, store.Admit, busiest.Subject{Object: store.Object{Name: "calm"}})
	c.CountPolicy(id, store.Merge, busiest.Subject{Object: store.Object{Name: "web"}})
	c.CountPolicy(id, store.Drop, busiest.Subject{Object: store.Object{Name: "web"}})
	c.CountPolicy(id, store.Deny, busiest.Subject{Source: store.Source{Component: long}})
	got := map[busiest.Subject]busiest.Counts{}
	for _, o := range policies(c.Snapshot(epoch()))[id].Offenders {
		got[o.Subject] = o.Counts
	}
	want := map[busiest.Subject]busiest.Counts{
		{Object: store.Object{Name: "web"}}:                       {Merged: 1, Dropped: 1},
		{Source: store.Source{Component: long[:busiest.MaxPart]}}: {Dropped: 1},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// One who makes more than a sixteenth of the refusals of a policy is always among its offenders.
func TestTheWorstOffenderIsFoundAmongMany(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for i := range 2000 {
		c.CountPolicy(generation(1), store.Drop, write(i*(i%10/9)).Subject)
		c.CountPolicy(generation(1), store.Drop, write(0).Subject)
	}
	offenders := policies(c.Snapshot(epoch()))[generation(1)].Offenders
	if len(offenders) != busiest.OffenderPlaces {
		t.Errorf("%d offenders, want %d", len(offenders), busiest.OffenderPlaces)
	}
	for _, o := range offenders {
		if o.Name == "web-0" && o.Dropped > 2000 {
			return
		}
	}
	t.Errorf("web-0, with almost all, is missing: %+v", offenders)
}

func TestAllPoliciesTogetherFollowABoundedNumberOfOffenders(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	var subjects []busiest.Subject
	for i := range busiest.OffenderPlaces {
		subjects = append(subjects, write(i).Subject)
	}
	for n := range busiest.PolicyPlaces * 5 / 4 {
		for _, s := range subjects {
			c.CountPolicy(generation(n), store.Drop, s)
		}
	}
	followed := 0
	for _, p := range c.Snapshot(epoch()).Policies {
		followed += len(p.Offenders)
	}
	if followed > busiest.MaxFollowed || followed < busiest.MaxFollowed-busiest.OffenderPlaces {
		t.Errorf("%d offenders are followed, want %d", followed, busiest.MaxFollowed)
	}
}

func TestPoliciesTakeTwelveMegabytesAtTheMost(t *testing.T) {
	before := heap()
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range busiest.MaxFollowed * 5 / 4 {
		text := fmt.Sprint(n) + strings.Repeat("x", 1<<14)
		c.CountPolicy(busiest.PolicyID{UID: text[:36]}, store.Drop, busiest.Subject{
			Object: store.Object{APIVersion: text, Kind: text, Namespace: text, Name: text, UID: text},
			Source: store.Source{Component: text, Host: text},
		})
	}
	took := heap() - before
	t.Logf("%d bytes", took)
	if took > 12<<20 {
		t.Errorf("they take %d bytes", took)
	}
	runtime.KeepAlive(c)
}

func TestCountingAPolicyThatIsKnownAllocatesNothing(t *testing.T) {
	c, id, w := busiest.NewCounter("a", epoch(), busiest.Places), generation(1), write(1)
	c.CountPolicy(id, store.Drop, w.Subject)
	if n := testing.AllocsPerRun(1000, func() { c.CountPolicy(id, store.Drop, w.Subject) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPolicyCountsAreReadAsTheyWereWritten(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range 5 {
		c.CountPolicy(generation(n), store.Drop, write(n).Subject)
	}
	wrote := c.Snapshot(epoch())
	text, err := json.Marshal(wrote)
	if err != nil {
		t.Fatal(err)
	}
	var read busiest.Snapshot
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, wrote) {
		t.Errorf("%+v, %v, want %+v", read, err, wrote)
	}
	if err := json.Unmarshal([]byte(`{"policies":[{"id":"uid"}]}`), &read); err == nil {
		t.Error("an ID without a generation is read")
	}
}
