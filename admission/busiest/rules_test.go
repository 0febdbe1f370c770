package busiest_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
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

func ruleIDOf(n int) busiest.RuleID {
	return busiest.RuleID{UID: fmt.Sprint("uid-", n), Generation: int64(n % 3)}
}

// decidedByRule is a decision by a rule of a namespace, or of the cluster, in audit mode, so that it is in no ranking.
func (w *testWrite) decidedByRule(namespace string, id busiest.RuleID, v store.Verdict) *admission.DecidedWrite {
	d := w.decided(v)
	d.Audited = true
	d.Rule = &policy.Rule{Mode: policy.Audit, Identity: policy.Identity{
		Namespace: namespace, UID: types.UID(id.UID), Generation: id.Generation,
	}}
	return d
}

func rules(s busiest.Snapshot) map[busiest.RuleID]busiest.RuleCounts {
	all := map[busiest.RuleID]busiest.RuleCounts{}
	for _, p := range s.Rules {
		all[p.ID] = p
	}
	return all
}

func TestConcurrentCountsAreExact(t *testing.T) {
	const writers, each, objects = 8, 2000, 200
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				d := write(i % objects).decided(store.Merge)
				d.Rule = &policy.Rule{Identity: policy.Identity{UID: types.UID(fmt.Sprint(i % objects))}}
				c.CountDecision(d)
				if i%100 == 0 {
					c.Snapshot(epoch())
				}
			}
		})
	}
	all.Wait()
	s := c.Snapshot(epoch())
	for by, r := range s.Rankings {
		if want := (busiest.Counts{Merged: writers * each}); r.Total != want || r.Others() != 0 {
			t.Errorf("by %v: a total of %+v and %d in no row, want %+v", by, r.Total, r.Others(), want)
		}
	}
	for _, r := range s.Rules {
		if r.Merged != writers*each/objects || len(r.Sources) != 1 || r.Sources[0].Merged != r.Merged {
			t.Errorf("%+v, want %d", r, writers*each/objects)
		}
	}
	if len(s.Rules) != objects {
		t.Errorf("%d rules, want %d", len(s.Rules), objects)
	}
}

// There are more keys of each kind than are tracked, all with long names.
func TestCounterMemoryLimit(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	for n := range busiest.MaxTrackedRules * 5 / 4 {
		text := fmt.Sprint(n) + strings.Repeat("x", 1<<14)
		d := (&testWrite{
			Namespace: text, Policy: text, Type: text, Reason: text,
			Object: store.Object{APIVersion: text, Kind: text, Namespace: text, Name: text, UID: text},
			Source: store.Source{Component: text, Host: text},
		}).decided(store.Drop)
		d.Rule.Identity.UID = types.UID(text[:36])
		d.Errors = []*policy.EvaluationError{{Rule: d.Rule, Err: errors.New(text)}}
		d.Bucket, d.Quotas, d.Resolution = "all", []store.Bucket{{Key: store.KeyOf(text), Name: "all", Policy: text}}, &policy.Resolution{Policy: policy.Default()}
		c.CountDecision(d)
	}
	took := heap() - before
	t.Logf("%d bytes", took)
	if took > 8<<20 {
		t.Errorf("it takes %d bytes", took)
	}
	s, sources := c.Snapshot(epoch()), 0
	for _, r := range s.Rules {
		sources += len(r.Sources)
	}
	if len(s.Rules) != busiest.MaxTrackedRules || sources > busiest.MaxTrackedSources || len(s.Rankings[busiest.Object].Rows) != busiest.MaxTracked {
		t.Errorf("%d rules, %d sources and %d objects are followed", len(s.Rules), sources, len(s.Rankings[busiest.Object].Rows))
	}
}

func TestRuleSourcesAreRefusedSources(t *testing.T) {
	c, long := busiest.NewCounter("a", epoch(), busiest.MaxTracked), strings.Repeat("x", busiest.MaxNameBytes+1)
	web := &testWrite{Object: store.Object{Kind: "Pod", Namespace: "shop", Name: "web"}, Source: store.Source{Component: "kubelet", Host: "node-1"}}
	c.CountDecision(write(1).decidedByRule("", ruleIDOf(1), store.Admit))
	c.CountDecision(web.decidedByRule("", ruleIDOf(1), store.Merge))
	c.CountDecision(web.decidedByRule("", ruleIDOf(1), store.Drop))
	c.CountDecision(web.decidedByRule("", ruleIDOf(2), store.Drop))
	c.CountDecision((&testWrite{Source: store.Source{Component: long}}).decidedByRule("", ruleIDOf(1), store.Deny))
	got := rules(c.Snapshot(epoch()))[ruleIDOf(1)].Sources
	want := []busiest.SourceCounts{
		{Source: "kubelet/node-1", Object: "Pod shop/web", Counts: busiest.Counts{Merged: 1, Dropped: 1}},
		{Source: long[:busiest.MaxNameBytes], Object: `"" ""`, Counts: busiest.Counts{Dropped: 1}},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// In a storm about many pods of one Deployment, each pod would otherwise have a row of its own.
func TestPodsAreCountedByWorkload(t *testing.T) {
	t.Parallel()
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	for i := range 1000 {
		d := write(i).decidedByRule("", ruleIDOf(1), store.Drop)
		d.Source = store.Source{Component: "kubelet"}
		d.Workload = store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: fmt.Sprint(i % 2)}
		c.CountDecision(d)
	}
	got := rules(c.Snapshot(epoch()))[ruleIDOf(1)].Sources
	want := []busiest.SourceCounts{{Source: "kubelet", Object: "Deployment shop/web", Counts: busiest.Counts{Dropped: 1000}}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A rule that decides nothing has an example of a failed condition, too.
func TestFailedConditionHasExample(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	failed := func(n int, why string) *policy.EvaluationError {
		return &policy.EvaluationError{
			Rule: write(n).decidedByRule("", ruleIDOf(n), store.Admit).Rule, Field: `condition "team"`, Err: errors.New(why),
		}
	}
	long := strings.Repeat("é", busiest.MaxNameBytes)
	d := write(1).decided(store.Admit)
	for _, errs := range [][]*policy.EvaluationError{
		{failed(1, "no such key: team"), failed(2, long)}, {failed(1, "no such key: app")}, nil,
	} {
		d.Errors = errs
		c.CountDecision(d)
	}
	got := rules(c.Snapshot(epoch()))
	if is, want := got[ruleIDOf(1)].Error, `condition "team": no such key: team`; is != want {
		t.Errorf("%q, want %q", is, want)
	}
	if is := got[ruleIDOf(2)].Error; len(is) > busiest.MaxNameBytes || !strings.HasSuffix(is, "é") {
		t.Errorf("a long one: %q", is)
	}
	if n := got[ruleIDOf(1)].Matched(); n != 0 {
		t.Errorf("%d writes are counted for a rule that decided none", n)
	}
}

// TestRuleCounts checks which decisions count in a status.
func TestRuleCounts(t *testing.T) {
	of := func(uid string, m policy.Mode) *policy.Rule {
		return &policy.Rule{Mode: m, Identity: policy.Identity{UID: types.UID("uid of " + uid), Generation: 7}}
	}
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	request := &admission.Request{Object: &corev1.Event{Reason: "BackOff"}}
	for _, d := range []admission.DecidedWrite{
		{Rule: of("enforced", policy.Enforce), Verdict: store.Admit},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Aggregate},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Merge},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Drop},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Deny},
		{Rule: of("enforced", policy.Enforce), Verdict: store.Drop, Audited: true}, // it would, if others were in force
		{Rule: of("audited", policy.Audit), Verdict: store.Drop, Audited: true},
		{Rule: &policy.Default().Rule, Verdict: store.Drop}, // it has no status
	} {
		d.Request = request
		c.CountDecision(&d)
	}
	var got []string
	for _, p := range c.Snapshot(epoch()).Rules {
		got = append(got, fmt.Sprintf("%+v %+v of %d", p.ID, p.Counts, len(p.Sources)))
	}
	want := []string{"{UID:uid of enforced Generation:7} {Admitted:2 Merged:1 Dropped:2} of 1", "{UID:uid of audited Generation:7} {Admitted:0 Merged:0 Dropped:1} of 1"}
	if !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// A rule with an overflow bucket that decides need not be the one that has decided.
func TestOverflowCounts(t *testing.T) {
	c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
	d := write(1).decidedByRule("", ruleIDOf(1), store.Drop)
	d.Request.Namespace = "shop"
	d.OverflowQuota, d.OverflowPolicy = write(1).decidedByRule("", ruleIDOf(2), store.Drop).Rule, &policy.Rule{} // the built-in default has no status
	d.Audited, d.OverflowQuota.Mode = false, policy.Enforce
	c.CountDecision(d)
	d.Request.Namespace = "bank"
	c.CountDecision(d)
	d.Audited = true // by a rule in force
	c.CountDecision(d)
	got := rules(c.Snapshot(epoch()))
	if over := got[ruleIDOf(2)]; over.Overflow != 2 || over.OverflowIn != "bank" || over.Matched() != 0 {
		t.Errorf("%+v, want 2 in bank, and nothing else", over)
	}
	if got[ruleIDOf(1)].Overflow != 0 || len(got) != 2 {
		t.Errorf("%+v", got)
	}
}
