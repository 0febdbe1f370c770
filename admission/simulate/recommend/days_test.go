package recommend

import (
	"fmt"
	"iter"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/policy"
)

// steadyWrites has so many Events a minute for a time, of pods in twenty namespaces.
func steadyWrites(name string, from, lasts time.Duration, aMinute int) iter.Seq[generatedWrite] {
	return func(yield func(generatedWrite) bool) {
		n := int(lasts.Minutes()) * aMinute
		for i := range n {
			if !yield(generatedWrite{
				after: from + time.Duration(i)*time.Minute/time.Duration(aMinute), namespace: fmt.Sprint("team-", i%20), controller: kubelet,
				host: fmt.Sprint("node-", i%300), kind: "Pod", object: fmt.Sprint(name, "-", i), reason: fmt.Sprint("Reason", i%7),
				severity: corev1.EventTypeNormal, message: "m",
			}) {
				return
			}
		}
	}
}

// TestDayAndNightAreSizedSeparately holds that a busy day is usual, and that the limits of it are not those of half a day.
func TestDayAndNightAreSizedSeparately(t *testing.T) {
	t.Parallel()
	trace := readTrace(t, auditLogOf("night", steadyWrites("night", 0, 8*time.Hour, 5)), auditLogOf("day", steadyWrites("day", 8*time.Hour, 3*time.Hour, 150)))
	p := proposalFor(t, trace, Options{Headroom: 1.5})
	if len(p.Storms) > 0 {
		t.Errorf("storms %+v, want none", p.Storms)
	}
	all := p.Quotas[0].Limits[3]
	if all.Name != "cluster" || perMinute(&all) < 225 || perMinute(&all) > 600 || all.Burst > 2000 {
		t.Errorf("in all %d and %s, want 1.5 times the 150 a minute of the day, and what a namespace and a controller may have", all.Burst, all.Refill())
	}
	if n := run(t, trace, rulesWith(t, newCompiler(t), quotasOf(t, p))).Outcomes[admission.Dropped]; n > 0 {
		t.Errorf("%d are refused", n)
	}
}

func perMinute(l *Limit) float64 { return float64(l.Tokens) / l.Interval.Minutes() }

// TestOutlierTimesAreIgnored has one whose time is days before, or years after, all others.
func TestOutlierTimesAreIgnored(t *testing.T) {
	t.Parallel()
	hour := proposalFor(t, readTrace(t, auditLogOf("hour", steadyWrites("hour", 0, time.Hour, 100))), Options{Headroom: 1.5})
	for says, off := range map[string]time.Duration{"ten days before": -240 * time.Hour, "eighty years after": 80 * 365 * 24 * time.Hour} {
		p := proposalFor(t, readTrace(t, auditLogOf("hour", steadyWrites("hour", 0, time.Hour, 100)), auditLogOf("old", steadyWrites("old", off, time.Minute, 1))), Options{Headroom: 1.5})
		for i, want := range hour.Quotas[0].Limits {
			if l := p.Quotas[0].Limits[i]; perMinute(&l) < 0.9*perMinute(&want) || l.Burst > 2*want.Burst {
				t.Errorf("%s: limit %s has %d and %s, want about %d and %s", says, l.Name, l.Burst, l.Refill(), want.Burst, want.Refill())
			}
		}
	}
}

// TestExpectedOriginIsUsualInStorm has a namespace that is expected while the whole cluster has a storm.
func TestExpectedOriginIsUsualInStorm(t *testing.T) {
	t.Parallel()
	ci := podsOf("ci", "ci", 3_000, 4*time.Minute, time.Minute, 100, "Created")
	trace := readTrace(t, quiet(100), auditLogOf("ci", ci), auditLogOf("noisy", noisy(15_000, 300)))
	p := proposalFor(t, trace, Options{Headroom: 1, Expected: func(o Origin) bool { return o.Namespace == "ci" }})
	own := false
	for _, q := range p.Quotas {
		own = own || q.Namespace == "ci" && q.Limits[1].Burst >= 1_000
	}
	if len(p.Storms) != 1 || !p.Storms[0].Everything || p.Storms[0].Controller != "noisy-operator" || !own {
		t.Errorf("storms %+v and quotas %+v, want one of the whole cluster, most by noisy-operator, and a quota for ci", p.Storms, p.Quotas)
	}
}

// TestExemptEventsAreNotCounted holds that no quota is sized for Events that none counts.
func TestExemptEventsAreNotCounted(t *testing.T) {
	t.Parallel()
	exempt := policy.Default()
	exempt.Name, exempt.Action, exempt.Match.Reasons = "ClusterEventPolicy exempt", policy.Exempt, []string{"Reason0"}
	o := simulate.Options{Rules: simulate.Rules{Cluster: policy.Rules{Policies: []*policy.Policy{exempt}}}}
	seen, err := Observe(t.Context(), readTrace(t, auditLogOf("hour", steadyWrites("hour", 0, 7*time.Minute, 10))), o)
	if err != nil || len(seen.events) != 60 {
		t.Errorf("%d Events need a token, error %v, want the 60 of 70 that are not exempt", len(seen.events), err)
	}
}

// TestInvalidNamespaceHasNoOwnQuota has a name that a recording was given for another.
func TestInvalidNamespaceHasNoOwnQuota(t *testing.T) {
	t.Parallel()
	trace := readTrace(t, auditLogOf("redacted", podsOf("pod", "Team_A", 5_000, 0, 10*time.Minute, 100, "Created")))
	p := proposalFor(t, trace, Options{Headroom: 1.5, Expected: func(Origin) bool { return true }})
	for _, q := range p.Quotas {
		if q.Namespace != "" {
			t.Errorf("quota %s for namespace %s", q.Name, q.Namespace)
		}
	}
	if n := run(t, trace, rulesWith(t, newCompiler(t), quotasOf(t, p))).Outcomes[admission.Dropped]; n > 0 {
		t.Errorf("%d are refused", n)
	}
}
