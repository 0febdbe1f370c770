package busiest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

func generation(n int) busiest.RuleID {
	return busiest.RuleID{UID: fmt.Sprint("uid-", n), Generation: int64(n % 3)}
}

func rules(s busiest.Snapshot) map[busiest.RuleID]busiest.RuleCounts {
	all := map[busiest.RuleID]busiest.RuleCounts{}
	for _, p := range s.Rules {
		all[p.ID] = p
	}
	return all
}

func TestRulesAreCountedExactlyByAnyNumberOfGoroutines(t *testing.T) {
	const writers, each = 8, busiest.RulePlaces * 5 / 4
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				c.CountRule("", generation(i%busiest.RulePlaces), store.Merge, write(i%7).Subject)
			}
		})
	}
	all.Wait()
	got := rules(c.Snapshot(epoch()))
	for n := range busiest.RulePlaces {
		want := int64(0)
		for i := n; i < each; i += busiest.RulePlaces {
			want += writers
		}
		if p := got[generation(n)]; p.Merged != want || p.Matched() != want {
			t.Fatalf("rule %d: %+v, want %d", n, p.Counts, want)
		}
	}
}

// Beyond the bound a rule loses its place; what is said of the others is never too high.
func TestManyRulesAreNeverCountedTooHigh(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c, model := busiest.NewCounter("a", epoch(), busiest.Places), map[busiest.RuleID]int64{}
	for range 4 * busiest.RulePlaces {
		id := generation(int(float64(10*busiest.RulePlaces) * r.Float64() * r.Float64() * r.Float64()))
		c.CountRule("", id, store.Drop, busiest.Subject{Object: store.Object{Name: "web"}})
		model[id]++
	}
	got := rules(c.Snapshot(epoch()))
	if len(got) != busiest.RulePlaces {
		t.Errorf("%d rules, want %d", len(got), busiest.RulePlaces)
	}
	for id, p := range got {
		if p.Dropped > model[id] || len(p.Sources) > 1 || len(p.Sources) == 1 && p.Sources[0].Dropped > p.Dropped {
			t.Fatalf("%+v, want %d at most", p, model[id])
		}
	}
}

func TestSourcesAreThoseWhoAreRefused(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	id := generation(1)
	long := strings.Repeat("x", busiest.MaxPart+1)
	c.CountRule("", id, store.Admit, busiest.Subject{Object: store.Object{Name: "calm"}})
	c.CountRule("", id, store.Merge, busiest.Subject{Object: store.Object{Name: "web"}})
	c.CountRule("", id, store.Drop, busiest.Subject{Object: store.Object{Name: "web"}})
	c.CountRule("", id, store.Deny, busiest.Subject{Source: store.Source{Component: long}})
	got := map[busiest.Subject]busiest.Counts{}
	for _, o := range rules(c.Snapshot(epoch()))[id].Sources {
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

// One who makes more than a sixteenth of the refusals of a rule is always among its sources.
func TestTheBusiestSourceIsFoundAmongMany(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for i := range 2000 {
		c.CountRule("", generation(1), store.Drop, write(i*(i%10/9)).Subject)
		c.CountRule("", generation(1), store.Drop, write(0).Subject)
	}
	sources := rules(c.Snapshot(epoch()))[generation(1)].Sources
	if len(sources) != busiest.SourcePlaces {
		t.Errorf("%d sources, want %d", len(sources), busiest.SourcePlaces)
	}
	for _, o := range sources {
		if o.Name == "web-0" && o.Dropped > 2000 {
			return
		}
	}
	t.Errorf("web-0, with almost all, is missing: %+v", sources)
}

func TestAllRulesTogetherFollowABoundedNumberOfSources(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	var subjects []busiest.Subject
	for i := range busiest.SourcePlaces {
		subjects = append(subjects, write(i).Subject)
	}
	for n := range busiest.RulePlaces * 5 / 4 {
		for _, s := range subjects {
			c.CountRule("", generation(n), store.Drop, s)
		}
	}
	followed := 0
	for _, p := range c.Snapshot(epoch()).Rules {
		followed += len(p.Sources)
	}
	if most := busiest.MaxFollowed / 2; followed > most || followed < most-busiest.SourcePlaces {
		t.Errorf("%d sources are followed of one namespace, want %d", followed, most)
	}
}

func TestRulesTakeTwelveMegabytesAtTheMost(t *testing.T) {
	before := heap()
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range busiest.MaxFollowed * 5 / 4 {
		text := fmt.Sprint(n) + strings.Repeat("x", 1<<14)
		c.Decided(&admission.Decided{
			Rule: &policy.Rule{}, Request: &admission.Request{Object: &corev1.Event{}},
			Errors: []*policy.EvaluationError{{
				Rule: &policy.Rule{Identity: policy.Identity{UID: types.UID(text[:36])}}, Err: errors.New(text),
			}},
		})
		c.CountRule("", busiest.RuleID{UID: text[:36]}, store.Drop, busiest.Subject{
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

func TestCountingARuleThatIsKnownAllocatesNothing(t *testing.T) {
	c, id, w := busiest.NewCounter("a", epoch(), busiest.Places), generation(1), write(1)
	c.CountRule("", id, store.Drop, w.Subject)
	if n := testing.AllocsPerRun(1000, func() { c.CountRule("", id, store.Drop, w.Subject) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRuleCountsAreReadAsTheyWereWritten(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range 5 {
		c.CountRule("", generation(n), store.Drop, write(n).Subject)
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
	if err := json.Unmarshal([]byte(`{"rules":[{"id":"uid"}]}`), &read); err == nil {
		t.Error("an ID without a generation is read")
	}
}

// TestConditionsThatFailAreCounted holds the count and the example of each rule, also of one that decides nothing.
func TestConditionsThatFailAreCounted(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	failed := func(n int, why string) *policy.EvaluationError {
		id := generation(n)
		r := &policy.Rule{Identity: policy.Identity{UID: types.UID(id.UID), Generation: id.Generation}}
		return &policy.EvaluationError{Rule: r, Condition: "team", Err: errors.New(why)}
	}
	long := strings.Repeat("é", busiest.MaxPart)
	d := decidedAbout("web", store.Admit)
	for _, errs := range [][]*policy.EvaluationError{
		{failed(1, "no such key: team"), failed(2, long)}, {failed(1, "no such key: app")}, nil,
	} {
		d.Errors = errs
		c.Decided(&d)
	}
	got := rules(c.Snapshot(epoch()))
	if is, want := got[generation(1)].Errors, (busiest.Errors{Count: 2, Example: `condition "team": no such key: team`}); is != want {
		t.Errorf("%+v, want %+v", is, want)
	}
	if is := got[generation(2)].Errors; is.Count != 1 || len(is.Example) > busiest.MaxPart || !strings.HasSuffix(is.Example, "é") {
		t.Errorf("a long one: %+v", is)
	}
	if n := got[generation(1)].Matched(); n != 0 {
		t.Errorf("%d writes are counted for a rule that decided none", n)
	}
	d.Errors = []*policy.EvaluationError{failed(1, "no such key: app")}
	if n := testing.AllocsPerRun(1000, func() { c.Decided(&d) }); n != 0 {
		t.Errorf("%v allocations for one that is known", n)
	}
}
