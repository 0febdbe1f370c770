package status_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// written returns the writes, one line each.
func (r *rig) written() []string {
	var lines []string
	for _, w := range r.writes {
		line := fmt.Sprintf("%v: %s@%d", w.at.Round(time.Second), w.name, w.status.ObservedGeneration)
		if meta.IsStatusConditionFalse(w.status.Conditions, v1alpha1.ConditionAccepted) {
			line += " invalid"
		}
		if c := w.status.Total; c != nil {
			line += fmt.Sprintf(" %d/%d/%d", c.Admitted, c.Merged, c.Dropped)
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *rig) wantWritten(want ...string) {
	r.Helper()
	if got := r.written(); !slices.Equal(got, want) {
		r.Errorf("written:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNewGenerationIsWrittenImmediately(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.after(6500*time.Millisecond, func() { r.changeReport(invalidReport("p", 1, 0)) })
		r.after(12*time.Second, func() { r.changeReport(validReport("p", 2)) })
		r.after(23500*time.Millisecond, func() { r.changeReport(validReport("other", 1)) })
		r.runLeader(time.Hour)
		r.wantWritten("7s: p@1 invalid", "24s: other@1 0/0/0", "37s: p@2 0/0/0")
	})
}

func TestCountsAreWrittenEveryFiveMinutes(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		for i := range 61 {
			r.after(time.Duration(i)*10*time.Second+500*time.Millisecond, func() { r.decide("p", 1, busiest.Counts{Admitted: 1, Merged: 2}) })
		}
		r.runLeader(30 * time.Minute) // within the hour
		r.wantWritten("0s: p@1 0/0/0", "5m0s: p@1 30/60/0", "10m0s: p@1 60/120/0", "15m0s: p@1 61/122/0")
	})
}

func TestEachKindHasAStatus(t *testing.T) {
	runInBubble(t, func(r *rig) {
		want := v1alpha1.Resources()
		for kind := range want {
			report := validReport("of a "+kind, 1)
			report.Kind = kind
			r.changeReport(report)
		}
		r.runLeader(time.Minute)
		if len(r.writes) != len(want) {
			t.Errorf("wrote %q", r.written())
		}
		for _, w := range r.writes {
			if kind := strings.TrimPrefix(w.name, "of a "); w.resource != want[kind] {
				t.Errorf("the status of a %s was written to %v", kind, w.resource)
			}
		}
	})
}

func TestShadowedIsWrittenImmediately(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.shadows = map[string][]string{}
		r.changeReport(validReport("p", 1))
		r.after(64500*time.Millisecond, func() {
			r.shadows["EventPolicy shop/p"] = []string{"EventPolicy shop/first takes precedence", "and more"}
			r.changeReport(validReport("first", 1))
		})
		r.after(119500*time.Millisecond, func() {
			r.shadows = nil
			r.changeReport(validReport("first", 2))
		})
		r.runLeader(4 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "1m5s: first@1 0/0/0", "1m6s: p@1 0/0/0", "2m0s: first@2 0/0/0", "2m1s: p@1 0/0/0")
		c, ready := meta.FindStatusCondition, v1alpha1.ConditionReady
		said := r.writes[2].status.Conditions
		if s := c(said, v1alpha1.ConditionShadowed); s == nil || s.Status != metav1.ConditionTrue || s.Message != "EventPolicy shop/first takes precedence; and more" {
			t.Errorf("condition %+v", s)
		}
		if s := c(said, ready); s.Status != metav1.ConditionTrue || s.Reason != "Shadowed" {
			t.Errorf("condition %+v, want a reason that kubectl get shows", s)
		}
		if s := c(r.writes[4].status.Conditions, v1alpha1.ConditionShadowed); s != nil {
			t.Errorf("condition %+v, want none: nothing takes precedence", s)
		}
	})
}

func TestCountsStayWhileReplicasAreUnavailable(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.after(5*time.Second, func() { r.decide("p", 1, busiest.Counts{Admitted: 5}) })
		r.after(305*time.Second, func() { r.counts.err = errors.New("unavailable") })
		r.after(341500*time.Millisecond, func() { r.changeReport(invalidReport("p", 2, 1)) })
		r.after(354500*time.Millisecond, func() { r.changeReport(validReport("new", 1)) })
		r.after(399*time.Second, func() { r.counts.err = nil })
		r.runLeader(10 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "5m0s: p@1 5/0/0", "5m42s: p@2 invalid 5/0/0", "5m55s: new@1 0/0/0")
		if len(r.logged) != 2 { // once a minute
			r.Errorf("logged %q, want one line a minute", r.logged)
		}
	})
}

// Another replica knows the new generation first.
func TestCountsRestartWithGeneration(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.after(5*time.Second, func() { r.decide("p", 1, busiest.Counts{Admitted: 5}) })
		r.after(35*time.Second, func() { r.decide("p", 2, busiest.Counts{Merged: 3}) })
		r.after(44500*time.Millisecond, func() { r.changeReport(validReport("p", 2)) })
		r.after(46*time.Second, func() { r.decide("p", 2, busiest.Counts{Merged: 1}) })
		r.runLeader(10 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "45s: p@2 0/0/0", "5m45s: p@2 0/4/0")
		if since := r.writes[2].status.Total.Since.Sub(r.began); since != 45*time.Second {
			r.Errorf("counted since %v, want the 45s at which the new generation was seen", since)
		}
	})
}

func TestFailedWriteBacksOff(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.writeError = errors.New("forbidden")
		r.changeReport(validReport("p", 1))
		r.after(50*time.Second, func() { r.writeError = nil })
		r.runLeader(5 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0", "1s: p@1 0/0/0", "3s: p@1 0/0/0", "7s: p@1 0/0/0", "15s: p@1 0/0/0", "31s: p@1 0/0/0", "1m3s: p@1 0/0/0")
		if len(r.logged) != 1 {
			r.Errorf("logged %q, want one line", r.logged)
		}
	})
}

func TestDeletedRuleIsNotWritten(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.after(5*time.Second, func() {
			r.decide("p", 1, busiest.Counts{Admitted: 5})
			r.reports = nil
		})
		r.runLeader(6 * time.Minute)
		r.wantWritten("0s: p@1 0/0/0")
	})
}

func TestLaggingReplicaWritesNothing(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("p", 1))
		r.store(r.objects["uid of p"], &v1alpha1.Status{ObservedGeneration: 2})
		r.runLeader(5 * time.Minute)
		r.wantWritten()
	})
}

// An account edits rules constantly, faster than statuses can be written.
func TestChangesDoNotStarveCounts(t *testing.T) {
	runInBubble(t, func(r *rig) {
		r.changeReport(validReport("calm", 1))
		r.after(time.Minute, func() { r.decide("calm", 1, busiest.Counts{Admitted: 1}) })
		for edit := range int64(48) { // the status of a rule is written every 30 s at most
			r.after(time.Duration(5+10*edit)*time.Second, func() {
				for i := range 40 {
					r.changeReport(validReport(fmt.Sprint("edited", i), edit+1))
				}
			})
		}
		r.runLeader(8 * time.Minute)
		if lines := r.written(); !slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, "calm@1 1/0/0") }) {
			r.Errorf("the counts of calm are not among %d writes", len(lines))
		}
	})
}

// More rules decide Events than five minutes have writes for, and one of them is changed meanwhile.
func TestOneWritePerSecond(t *testing.T) {
	runInBubble(t, func(r *rig) {
		const rules, during, late = 310, 8 * time.Minute, 7*time.Minute + 3300*time.Millisecond
		for i := range rules {
			r.changeReport(validReport(fmt.Sprint("p", i), 1))
		}
		for at := time.Minute; at < during; at += time.Minute {
			r.after(at, func() {
				for i := range rules {
					r.decide(fmt.Sprint("p", i), 1, busiest.Counts{Admitted: 1})
				}
			})
		}
		r.after(late, func() { r.changeReport(validReport("p1", 2)) })
		r.runLeader(during)
		if n, seconds := len(r.writes), int(during.Seconds()); n < seconds-30 || n > seconds+1 {
			r.Errorf("%d writes in %v, want one a second", n, during)
		}
		last, urgent := map[string]time.Duration{}, false
		for i, w := range r.writes {
			if i > 0 && w.at-r.writes[i-1].at < time.Second {
				r.Fatalf("two writes within %v", w.at-r.writes[i-1].at)
			}
			if at, again := last[w.name]; again && w.at-at < 5*time.Minute && w.status.ObservedGeneration == 1 {
				r.Errorf("%s was written again after %v", w.name, w.at-at)
			}
			last[w.name] = w.at
			urgent = urgent || w.status.ObservedGeneration == 2 && w.at < late+3*time.Second
		}
		if len(last) != rules {
			r.Errorf("%d rules have a status", len(last))
		}
		if !urgent {
			r.Error("the changed rule waited for others")
		}
	})
}

// One tenant has thousands of rules, and constantly changes them and writes to their statuses. Nobody else waits for them.
func TestNamespacesShareStatusWrites(t *testing.T) {
	runInBubble(t, func(r *rig) {
		const rules = 2000
		greedy := func(i int, generation int64) watch.Report {
			report := validReport(fmt.Sprint("a", i), generation)
			report.Namespace = "greedy"
			return report
		}
		for i := range rules {
			r.changeReport(greedy(i, 1))
		}
		for edit := range int64(12) {
			r.after(time.Duration(25*edit+3)*time.Second, func() {
				for i := range rules {
					r.changeReport(greedy(i, edit+2))
				}
			})
		}
		const late = 2 * time.Minute
		r.after(late+500*time.Millisecond, func() {
			brake := validReport("z-brake", 1)
			brake.Kind = v1alpha1.KindClusterEventPolicy
			r.changeReport(brake)
			r.changeReport(validReport("z-calm", 1))
		})
		r.after(late+30*time.Second, func() { r.decide("z-calm", 1, busiest.Counts{Admitted: 1}) })
		r.runLeader(10 * time.Minute)
		at := map[string][]time.Duration{}
		for _, w := range r.writes {
			at[w.name] = append(at[w.name], w.at)
		}
		if len(at["z-brake"]) == 0 || at["z-brake"][0] > late+3*time.Second {
			r.Errorf("the admin's rule, created at %v, got a status at %v", late, at["z-brake"])
		}
		if len(at["z-calm"]) != 2 || at["z-calm"][0] > late+5*time.Second || at["z-calm"][1] > at["z-calm"][0]+status.DefaultCountsInterval+5*time.Second {
			r.Errorf("the other tenant's rule, created at %v, got its status and its counts at %v", late, at["z-calm"])
		}
		if len(r.writes) < 500 {
			r.Errorf("%d writes in 10m, want about one a second", len(r.writes))
		}
	})
}
