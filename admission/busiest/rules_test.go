package busiest_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// byRule is a decision by a rule of a namespace, or of the cluster, that is in audit mode, so that it is in no ranking.
func byRule(namespace string, id busiest.RuleID, v store.Verdict, s busiest.Subject) *admission.Decided {
	return &admission.Decided{
		Rule: &policy.Rule{Mode: policy.Audit, Identity: policy.Identity{
			Namespace: namespace, UID: types.UID(id.UID), Generation: id.Generation,
		}},
		Audited: true, Verdict: v, Object: s.Object, Source: s.Source,
		Request: &admission.Request{Request: policy.Request{Namespace: s.Namespace}, Object: &corev1.Event{}},
	}
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
				c.Decided(byRule("", generation(i%busiest.RulePlaces), store.Merge, write(i%7).Subject))
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
		c.Decided(byRule("", id, store.Drop, busiest.Subject{Object: store.Object{Name: "web"}}))
		model[id]++
	}
	got := rules(c.Snapshot(epoch()))
	if len(got) != busiest.RulePlaces {
		t.Errorf("%d rules, want %d", len(got), busiest.RulePlaces)
	}
	for id, p := range got {
		if p.Dropped > model[id] || len(p.Sources) > 1 || len(p.Sources) == 1 && p.Sources[0].Dropped > model[id] {
			t.Fatalf("%+v, want %d at most", p, model[id])
		}
	}
}

func TestSourcesAreThoseWhoAreRefused(t *testing.T) {
	c, long := busiest.NewCounter("a", epoch(), busiest.Places), strings.Repeat("x", busiest.MaxPart+1)
	web := busiest.Subject{Object: store.Object{Name: "web"}}
	c.Decided(byRule("", generation(1), store.Admit, busiest.Subject{Object: store.Object{Name: "calm"}}))
	c.Decided(byRule("", generation(1), store.Merge, web))
	c.Decided(byRule("", generation(1), store.Drop, web))
	c.Decided(byRule("", generation(2), store.Drop, web))
	c.Decided(byRule("", generation(1), store.Deny, busiest.Subject{Source: store.Source{Component: long}}))
	got := map[busiest.Subject]busiest.Counts{}
	for _, o := range rules(c.Snapshot(epoch()))[generation(1)].Sources {
		got[o.Subject] = o.Counts
	}
	want := map[busiest.Subject]busiest.Counts{
		web: {Merged: 1, Dropped: 1},
		{Source: store.Source{Component: long[:busiest.MaxPart]}}: {Dropped: 1},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// One who makes half of the refusals is always among the sources, whichever rules refuse.
func TestTheBusiestSourceIsFoundAmongMany(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	const each = 10 * busiest.SourcePlaces
	for i := range each {
		c.Decided(byRule("", generation(i%20), store.Drop, write(i).Subject))
		c.Decided(byRule("", generation(1), store.Drop, write(-1).Subject))
	}
	followed, found := 0, false
	for _, p := range c.Snapshot(epoch()).Rules {
		followed += len(p.Sources)
		for _, o := range p.Sources {
			found = found || p.ID == generation(1) && o.Name == "web--1" && o.Dropped == each
		}
	}
	if !found || followed != busiest.SourcePlaces {
		t.Errorf("%d sources are followed, web--1 being found: %v", followed, found)
	}
}

func TestRulesTakeFourMegabytesAtTheMost(t *testing.T) {
	before := heap()
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	for n := range busiest.RulePlaces * 5 / 4 {
		text := fmt.Sprint(n) + strings.Repeat("x", 1<<14)
		d := byRule("", busiest.RuleID{UID: text[:36]}, store.Drop, busiest.Subject{
			Object: store.Object{APIVersion: text, Kind: text, Namespace: text, Name: text, UID: text},
			Source: store.Source{Component: text, Host: text},
		})
		d.Errors = []*policy.EvaluationError{{Rule: d.Rule, Err: errors.New(text)}}
		c.Decided(d)
	}
	took := heap() - before
	t.Logf("%d bytes", took)
	if took > 4<<20 {
		t.Errorf("they take %d bytes", took)
	}
	runtime.KeepAlive(c)
}

// TestConditionsThatFailAreCounted holds the count and the example of each rule, also of one that decides nothing.
func TestConditionsThatFailAreCounted(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.Places)
	failed := func(n int, why string) *policy.EvaluationError {
		return &policy.EvaluationError{
			Rule: byRule("", generation(n), store.Admit, busiest.Subject{}).Rule, Condition: "team", Err: errors.New(why),
		}
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
}
