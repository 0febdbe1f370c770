package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// TestRecorderSequence replays what a recorder sent without the webhook.
func TestRecorderSequence(t *testing.T) {
	created := func(name, message string, at int) string {
		return text(request("create", name, 201, sec(at), event(name, message, sec(at))))
	}
	about := func(pod string, at int) string {
		e := event(pod, "one", sec(at))
		e.InvolvedObject.Name = pod
		return text(request("create", pod, 201, sec(at), e))
	}
	patched := func(name string, n, at int) string {
		return text(request("patch", name, 200, sec(at), countPatch(n, sec(at))))
	}
	for says, test := range map[string]struct {
		log     string
		change  func(*policy.Policy)
		quotas  []*policy.Quota
		want    []string
		etcd    EtcdWrites
		notices int64
	}{
		"a repeat soon after is merged, and its count written once": {
			log:  created("a", "one", 0) + patched("a", 2, 1) + patched("a", 3, 2),
			want: []string{"create a: admit", "patch a: merge", "patch a: merge"},
			etcd: EtcdWrites{Before: 3, After: 2, Events: 1, Counts: 1},
		},
		"a repeat after the write interval is written, and the next after twice that": {
			log:  created("a", "one", 0) + patched("a", 2, 20) + patched("a", 3, 60),
			want: []string{"create a: admit", "patch a: admit", "patch a: admit"},
			etcd: EtcdWrites{Before: 3, After: 3, Events: 3},
		},
		"counts are written after the write interval, and then after twice that": {
			log:  created("a", "one", 0) + patched("a", 2, 1) + patched("a", 3, 11) + patched("a", 4, 12) + patched("a", 5, 21),
			want: []string{"create a: admit", "patch a: merge", "patch a: merge", "patch a: merge", "patch a: merge"},
			etcd: EtcdWrites{Before: 5, After: 3, Events: 1, Counts: 2},
		},
		"a recorder whose Event is not found creates it with the count so far": {
			log:  created("a", "one", 0) + created("b", "one", 1) + patched("b", 2, 2) + patched("b", 3, 3),
			want: []string{"create a: admit", "create b: merge", "patch b: merge", "patch b: merge"},
			etcd: EtcdWrites{Before: 4, After: 2, Events: 1, Counts: 1},
		},
		"an Event that was deleted is created anew": {
			log:  created("a", "one", 0) + text(request("delete", "a", 200, sec(1), nil)) + created("a", "other", 2),
			want: []string{"create a: admit", "create a: admit"},
			etcd: EtcdWrites{Before: 2, After: 2, Events: 2},
		},
		"the Events of a namespace that was deleted are created anew": {
			log: created("a", "one", 0) + created("b", "two", 0) + text(request("deletecollection", "", 200, sec(1), nil)) +
				created("a", "other", 2) + created("b", "two", 3),
			want: []string{"create a: admit", "create b: admit", "create a: admit", "create b: admit"},
			etcd: EtcdWrites{Before: 4, After: 4, Events: 4},
		},
		"a name that is taken is nothing written": {
			log:  created("a", "one", 0) + text(request("create", "a", 409, sec(1), event("a", "other", sec(1)))),
			want: []string{"create a: admit", "create a: failed"},
			etcd: EtcdWrites{Before: 1, After: 1, Events: 1},
		},
		"nothing is written into an Event that has the name of another": {
			log:  created("a", "one", 0) + text(request("create", "a", 409, sec(1), event("a", "other", sec(1)))) + created("b", "other", 2),
			want: []string{"create a: admit", "create a: failed", "create b: merge"},
			etcd: EtcdWrites{Before: 2, After: 2, Events: 1, Notices: 1}, notices: 1,
		},
		"what a quota drops of many objects is one notice": {
			log: about("web-1", 0) + about("web-2", 1) + about("web-3", 2) + about("web-4", 13),
			quotas: []*policy.Quota{{
				Rule:   policy.Rule{Name: "ClusterEventQuota q", Identity: policy.Identity{Kind: v1alpha1.KindClusterEventQuota, Name: "q"}},
				Limits: []policy.QuotaLimit{{Name: "all", Bucket: policy.Bucket{ID: "all", Burst: 1, Tokens: 1, Interval: time.Hour}}},
			}},
			want: []string{"create web-1: admit", "create web-2: drop", "create web-3: drop", "create web-4: drop"},
			etcd: EtcdWrites{Before: 4, After: 3, Events: 1, Notices: 2}, notices: 1,
		},
		"a policy that drops all says so in a notice": {
			log:    created("a", "one", 0) + created("b", "two", 1),
			change: func(p *policy.Policy) { p.Action = policy.Drop },
			want:   []string{"create a: drop", "create b: drop"},
			etcd:   EtcdWrites{Before: 2, After: 1, Notices: 1}, notices: 1,
		},
		"the patch of an Event that nobody knows is not decided": {
			log:  patched("a", 5, 0),
			want: []string{"patch a: unknown"},
		},
		"a label is written": {
			log:  created("a", "one", 0) + text(request("patch", "a", 200, sec(1), `{"metadata":{"labels":{"x":"y","z":null}}}`)),
			want: []string{"create a: admit", "patch a: admit"},
			etcd: EtcdWrites{Before: 2, After: 2, Events: 2},
		},
		"a JSON patch is not decided": {
			log:  created("a", "one", 0) + text(request("patch", "a", 200, sec(1), `[{"op":"replace","path":"/count","value":2}]`)),
			want: []string{"create a: admit", "patch a: unknown"},
			etcd: EtcdWrites{Before: 1, After: 1, Events: 1},
		},
		"time goes by their own stamps, not by the order of lines": {
			log:  patched("a", 3, 60) + patched("a", 2, 20) + created("a", "one", 0),
			want: []string{"create a: admit", "patch a: admit", "patch a: admit"},
			etcd: EtcdWrites{Before: 3, After: 3, Events: 3},
		},
	} {
		t.Run(says, func(t *testing.T) {
			r, got := runTrace(t, readAll(t, test.log), defaults(test.change, test.quotas...))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.etcd, r.EtcdWrites); diff != "" || r.Notices != test.notices {
				t.Errorf("%d notices, want %d; writes to etcd (-want +got):\n%s", r.Notices, test.notices, diff)
			}
		})
	}
}

func TestStoredEventExpandsToWrites(t *testing.T) {
	huge := repeatedEvent("a", 2_000_000, sec(3600))
	single := repeatedEvent("a", 0, noon())
	single.EventTime.Time = noon()
	series := single.DeepCopy()
	series.Series = &corev1.EventSeries{Count: 90, LastObservedTime: metav1.NewMicroTime(sec(7200))}
	for says, test := range map[string]struct {
		list                  string
		fewest, before, after int64
		again                 int64 // Events at the fewest writes beside the first, as it has expired by the last
	}{
		"one occurrence":                  {listOf(t, event("a", "one", sec(0))), 1, 1, 1, 0},
		"thirty in a minute":              {listOf(t, repeatedEvent("a", 30, sec(60))), 2, 30, 8, 0},
		"thirty at once":                  {listOf(t, repeatedEvent("a", 30, noon())), 2, 30, 2, 0},
		"two that go on at the same time": {listOf(t, repeatedEvent("a", 30, sec(60)), repeatedEvent("b", 30, sec(60))), 4, 60, 8, 0},
		"more than a hundred thousand":    {listOf(t, huge), 2, 100_000, 362, 1},
		"a single one of events.k8s.io":   {listOf(t, single), 1, 1, 1, 0},
		"a series that took two hours":    {listOf(t, series), 2, 7, 7, 1},
	} {
		t.Run(says, func(t *testing.T) {
			trace := readAll(t, test.list)
			r, _ := runTrace(t, trace, defaults(nil))
			if r.EtcdWrites.Before != test.before || r.EtcdWrites.After > test.after || r.Stored != 1 {
				t.Errorf("%d Events and writes to etcd %+v, want 1 and %d before and at most %d after", r.Stored, r.EtcdWrites, test.before, test.after)
			}
			few := defaults(nil)
			few.Bound = Fewest
			if r, _ := runTrace(t, trace, few); r.EtcdWrites.Before != test.fewest || r.Stored != 1+test.again {
				t.Errorf("at the fewest, %d Events and writes to etcd %+v, want %d and %d before", r.Stored, r.EtcdWrites, 1+test.again, test.fewest)
			}
			if trace.Input.Fewest != test.fewest || trace.Input.Most != test.before {
				t.Errorf("from %d to %d writes, want from %d to %d", trace.Input.Fewest, trace.Input.Most, test.fewest, test.before)
			}
		})
	}
}

func TestStepsSpanOccurrences(t *testing.T) {
	for _, of := range []int64{2, 3, 7, maxSteps} {
		last := noon()
		for i := range of {
			at := stepAt(noon(), sec(3601), i, of)
			if at.Before(last) || i == 0 && !at.Equal(noon()) || i == of-1 && !at.Equal(sec(3601)) {
				t.Fatalf("of %d steps the %d. is at %s after %s", of, i, at, last)
			}
			last = at
		}
	}
}

func TestWarningsDroppedAreCounted(t *testing.T) {
	calm := event("b", "two", sec(1))
	calm.Type = "Normal"
	r, _ := runTrace(t, readAll(t, text(event("a", "one", sec(0)))+text(calm)), defaults(func(p *policy.Policy) { p.Action = policy.Drop }))
	if r.WarningsDropped != 1 || r.Outcomes["drop"] != 2 {
		t.Errorf("%d Warnings of %v dropped, want 1 of 2", r.WarningsDropped, r.Outcomes)
	}
	want := []RuleCounts{{Rule: "default", Counts: busiest.Counts{Dropped: 2}, Buckets: map[string]int64{"drops all": 2}}}
	if diff := cmp.Diff(want, r.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for by, name := range map[busiest.Dimension]string{
		busiest.Namespace: "shop", busiest.Source: "kubelet/node-1", busiest.Object: "Pod shop/web-0", busiest.Policy: "default",
	} {
		if want := []busiest.Row{{Name: name, Counts: busiest.Counts{Dropped: 2}}}; !slices.Equal(r.Busiest[by].Rows, want) {
			t.Errorf("by %s %v, want %v", by, r.Busiest[by].Rows, want)
		}
	}
	if rows := r.Busiest[busiest.Reason].Rows; len(rows) != 2 || rows[0].Name != "Normal BackOff" || rows[1].Name != "Warning BackOff" {
		t.Errorf("by reason %v, want a Normal and a Warning one", rows)
	}
}

// TestTraceRunsAreDeterministic also checks that runs share no state, and that each overwrites the Events of the one before in
// the temporary file.
func TestTraceRunsAreDeterministic(t *testing.T) {
	trace := readAll(t, storm(300))
	first, firstDecisions := runTrace(t, trace, defaults(nil))
	stored := trace.spool.end()
	_, _ = runTrace(t, trace, defaults(func(p *policy.Policy) { p.Action = policy.Drop }))
	again, againDecisions := runTrace(t, trace, defaults(nil))
	if diff := cmp.Diff(first, again, cmpopts.IgnoreUnexported(Result{})); diff != "" {
		t.Errorf("result (-first +again):\n%s", diff)
	}
	if diff := cmp.Diff(firstDecisions, againDecisions); diff != "" {
		t.Errorf("decisions (-first +again):\n%s", diff)
	}
	if trace.spool.end() != stored {
		t.Errorf("the temporary file has %d bytes, want %d as after the first run", trace.spool.end(), stored)
	}
}

// storm returns an audit log of repeated Events about some pods, each with a new name.
func storm(n int) string {
	var b strings.Builder
	for i := range n {
		e := event(fmt.Sprintf("e-%d", i), fmt.Sprintf("message %d", i%20), sec(i))
		e.InvolvedObject.Name = fmt.Sprintf("web-%d", i%7)
		b.WriteString(text(request("create", e.Name, 201, sec(i), e)))
	}
	return b.String()
}

// TestUserHasRecordedGroups has a user with more groups than a decoder accepts by default, and one without groups.
func TestUserHasRecordedGroups(t *testing.T) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	var p v1alpha1.ClusterEventPolicy
	p.Name, p.Spec.Tier, p.Spec.Action = "grouped", "Admin", "Drop"
	p.Spec.Match.Conditions = []v1alpha1.MatchCondition{{Name: "grouped", Expression: "has(request.userInfo.groups)"}}
	rules, err := compiler.Compile(&p)
	if err != nil {
		t.Fatal(err)
	}
	grouped := request("create", "a", 201, sec(0), event("a", "one", sec(0)))
	grouped["user"] = map[string]any{"username": "kubelet", "groups": make([]string, 200_000)}
	alone := request("create", "b", 201, sec(1), event("b", "two", sec(1)))
	_, got := runTrace(t, readAll(t, text(grouped)+text(alone)), Options{Rules: Rules{Cluster: rules}})
	if want := []string{"create a: drop", "create b: admit"}; !slices.Equal(got, want) {
		t.Errorf("decided %q, want %q", got, want)
	}
}

func TestLongGapIsSkipped(t *testing.T) {
	late := noon().AddDate(80, 0, 0)
	began := time.Now()
	r, got := runTrace(t, readAll(t, text(repeatedEvent("a", 5, sec(1)))+text(event("b", "two", late))), defaults(nil))
	if r.EtcdWrites.Counts != 1 || got[len(got)-1] != "create b: admit" {
		t.Errorf("writes %+v, decisions %v, want one count and b admitted", r.EtcdWrites, got)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("eighty years took %s", took)
	}
}

// TestLaterEventStateWins reads an earlier and a later list with the same Event, in either order.
func TestLaterEventStateWins(t *testing.T) {
	t.Parallel()
	early, late := repeatedEvent("a", 10, sec(60)), repeatedEvent("a", 30, sec(180))
	early.UID, early.ResourceVersion, late.UID, late.ResourceVersion = "u", "1", "u", "2"
	for _, items := range [][]any{{early, late}, {late, early}} {
		trace := readAll(t, listOf(t, items[0])+listOf(t, items[1]))
		if in := trace.Input; in.Most != 30 || in.Fewest != 2 || in.Skipped["earlier states of an Event"] != 1 {
			t.Errorf("from %d to %d writes, skipped %v, want those of the later one", in.Fewest, in.Most, in.Skipped)
		}
		if r, _ := runTrace(t, trace, defaults(nil)); r.EtcdWrites.Before != 30 || r.Stored != 1 {
			t.Errorf("%d Events of %d writes, want one of 30", r.Stored, r.EtcdWrites.Before)
		}
	}
}

// TestEventTTLOption has an Event that is repeated after two hours.
func TestEventTTLOption(t *testing.T) {
	t.Parallel()
	trace := readAll(t, listOf(t, repeatedEvent("a", 2, sec(7200))))
	for ttl, want := range map[time.Duration]int64{0: 2, time.Hour: 2, 3 * time.Hour: 1} {
		o := defaults(nil)
		o.EventTTL = ttl
		if r, _ := runTrace(t, trace, o); r.Stored != want {
			t.Errorf("%d Events are stored where they are kept for %v, want %d", r.Stored, ttl, want)
		}
	}
}
