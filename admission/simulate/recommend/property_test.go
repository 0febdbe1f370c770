package recommend

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
)

// randomWrites yields bursts of some controllers in some namespaces. Their sizes differ by orders of magnitude.
func randomWrites(random *rand.Rand) iter.Seq[generatedWrite] {
	namespaces, controllers := 1+random.IntN(20), 1+random.IntN(12)
	return func(yield func(generatedWrite) bool) {
		for burst := range 1 + random.IntN(60) {
			w := generatedWrite{
				namespace: fmt.Sprint("ns-", random.IntN(namespaces)), controller: fmt.Sprint("controller-", random.IntN(controllers)), host: "h",
				kind: "Pod", reason: fmt.Sprint("Reason", random.IntN(5)), message: "m", severity: corev1.EventTypeNormal,
			}
			if random.IntN(4) == 0 {
				w.severity = corev1.EventTypeWarning
			}
			from, within := time.Duration(random.Int64N(int64(20*time.Minute))), 1+time.Duration(random.Int64N(int64(5*time.Minute)))
			for i := range 1 << random.IntN(11) {
				w.after, w.object = from+time.Duration(random.Int64N(int64(within))), fmt.Sprint("pod-", burst, "-", i)
				if !yield(w) {
					return
				}
			}
		}
	}
}

// TestUsualEventsAreNeverRefused proposes limits without headroom, equal to the observed Events except for rounding.
func TestUsualEventsAreNeverRefused(t *testing.T) {
	t.Parallel()
	own, compiler := 0, newCompiler(t)
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	for seed := range uint64(seeds) {
		trace := readTrace(t, auditLogOf("random", randomWrites(rand.New(rand.NewPCG(seed, 1)))))
		p := proposalFor(t, trace, Options{Headroom: 1, Expected: func(Origin) bool { return true }})
		if len(p.Storms) > 0 || p.Usual != p.Events {
			t.Fatalf("seed %d: %d of %d are usual, with storms %v, want all", seed, p.Usual, p.Events, p.Storms)
		}
		got := run(t, trace, rulesWith(t, compiler, quotasOf(t, p)))
		if n := got.Outcomes[admission.Dropped]; n > 0 {
			t.Errorf("seed %d: %d of %d are refused: %+v", seed, n, p.Events, got.Rules)
		}
		own += len(p.Quotas) - 2
	}
	if own < seeds {
		t.Errorf("%d quotas for one namespace or controller, want some in most", own)
	}
}

// TestOwnSizesForLargeBuckets has a namespace and a controller that need far more than the others.
func TestOwnSizesForLargeBuckets(t *testing.T) {
	t.Parallel()
	trace := readTrace(t, quiet(100), auditLogOf("ci", podsOf("ci", "ci", 4_000, 0, 10*time.Minute, 100, "Created", "Started")))
	p := proposalFor(t, trace, Options{Headroom: 1.5, Expected: func(o Origin) bool { return o.Namespace == "ci" }})
	tight := proposalFor(t, readTrace(t, quiet(100)), Options{Headroom: 1.5})
	var names []string
	for _, q := range p.Quotas {
		names = append(names, fmt.Sprintf("%s %s%s", q.Name, q.Namespace, q.Controller))
	}
	if want := []string{
		"recommended-normal ", "recommended-normal-namespace-1 ci", "recommended-normal-controller-1 kubelet", "recommended-warning ",
	}; !slices.Equal(names, want) {
		t.Errorf("quotas %q, want %q", names, want)
	}
	for i, l := range p.Quotas[0].Limits[:2] { // for the others
		if was := tight.Quotas[0].Limits[i]; l.Burst > was.Burst || l.Tokens > was.Tokens {
			t.Errorf("limit %s has %d and %s beside ci, and only %d and %s without", l.Name, l.Burst, l.Refill(), was.Burst, was.Refill())
		}
	}
	if n := run(t, trace, rulesWith(t, newCompiler(t), quotasOf(t, p))).Outcomes[admission.Dropped]; n > 0 {
		t.Errorf("%d are refused", n)
	}
}

// TestUnnameableControllersHaveNoOwnQuota has one without a name, and one whose name no match takes.
func TestUnnameableControllersHaveNoOwnQuota(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	for _, name := range []string{"", string(slices.Repeat([]byte("long"), 64))} {
		trace := readTrace(t, auditLogOf("unnamed", func(yield func(generatedWrite) bool) {
			for w := range podsOf("pod", "shop", 5_000, 0, 10*time.Minute, 100, "Created") {
				w.controller = name
				if !yield(w) {
					return
				}
			}
		}))
		p := proposalFor(t, trace, Options{Headroom: 1.5, Expected: func(Origin) bool { return true }})
		for _, q := range p.Quotas {
			if q.Controller != "" {
				t.Errorf("quota %s for a controller with %d characters", q.Name, len(q.Controller))
			}
		}
		if n := run(t, trace, rulesWith(t, compiler, quotasOf(t, p))).Outcomes[admission.Dropped]; n > 0 {
			t.Errorf("%d are refused", n)
		}
	}
}

// TestStormsIncludeEdges has a storm that begins and ends within minutes.
func TestStormsIncludeEdges(t *testing.T) {
	t.Parallel()
	from := 3*time.Minute + 50*time.Second
	pods := podsOf("storm", "shop", 4_000, from, 2*time.Minute, 100, "Created")
	both := readTrace(t, quiet(100), auditLogOf("storm", pods))
	p := proposalFor(t, both, Options{Headroom: 1})
	if len(p.Storms) != 1 || p.Storms[0].Origin != (Origin{"shop", kubelet}) || p.Storms[0].Everything || p.Storms[0].Events != 4_000 ||
		p.Storms[0].Above != 600 || p.Storms[0].Peak < 1_800 || p.Storms[0].Peak > 2_200 || p.Events-p.Usual != 4_000 {
		t.Errorf("storms %+v, %d of %d usual, want one of 4,000 Events by kubelets in shop", p.Storms, p.Usual, p.Events)
	}
	for after, want := range map[time.Duration]bool{time.Minute: true, from: false, from + 2*time.Minute: false, 8 * time.Minute: true} {
		at := p.Storms[0].First.Truncate(time.Minute).Add(after - 3*time.Minute)
		if got := p.IsUsual(Origin{"shop", kubelet}, "Normal", at); got != want {
			t.Errorf("after %s, usual %v, want %v", after, got, want)
		}
		if !p.IsUsual(Origin{"team-1", kubelet}, "Normal", at) {
			t.Errorf("after %s, the same controller elsewhere is not usual", after)
		}
	}
	p = proposalFor(t, both, Options{Headroom: 1, Expected: func(o Origin) bool { return o.Namespace == "shop" }})
	if len(p.Storms) > 0 || p.Usual != p.Events {
		t.Errorf("storms %+v although it is expected", p.Storms)
	}
}

// TestClusterWideStormIsFound has a storm in many namespaces, each with few Events.
func TestClusterWideStormIsFound(t *testing.T) {
	t.Parallel()
	p := proposalFor(t, readTrace(t, quiet(100), auditLogOf("noisy", noisy(15_000, 300))), Options{Headroom: 1})
	if len(p.Storms) != 1 || !p.Storms[0].Everything || p.Storms[0].Events < 14_750 || p.Storms[0].Above != 1_000 {
		t.Errorf("storms %+v, want one of the whole cluster", p.Storms)
	}
}

func TestWholeRecordingCanBeStorm(t *testing.T) {
	t.Parallel()
	if p := proposalFor(t, readTrace(t, auditLogOf("rollout", rollout(5_000))), Options{Headroom: 1.5}); p.Usual > 0 || p.Events != 30_000 {
		t.Errorf("%d of %d are usual, want none", p.Usual, p.Events)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		all   []int64
		zeros int64
		part  float64
		want  int64
	}{
		{nil, 0, 0.5, 0}, {nil, 7, 0.5, 0}, {[]int64{7}, 0, 0.01, 7}, {[]int64{3, 1, 2}, 0, 0.5, 2}, {[]int64{4, 3, 2, 1}, 0, 0.5, 2},
		{[]int64{4, 3, 2, 1}, 0, 1, 4}, {[]int64{4, 3, 2, 1}, 0, 0.99, 4}, {[]int64{2, 1}, 2, 0.5, 0}, {[]int64{2, 1}, 2, 0.75, 1},
		{[]int64{2, 1}, 1e12, 0.5, 0}, {[]int64{2, 1}, 1e12, 1, 2},
	} {
		if got := quantile(slices.Clone(test.all), test.zeros, test.part); got != test.want {
			t.Errorf("%v of %v and %d zeros is %d, want %d", test.part, test.all, test.zeros, got, test.want)
		}
	}
}

func TestNumbersAreRoundedUpToTwoDigits(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]int32{0: 1, 0.2: 1, 7: 7, 99.5: 100, 100: 100, 101: 110, 1234: 1300, 99_999: 100_000, 2e9: 1_000_000} {
		if got := twoDigits(x); got != want {
			t.Errorf("%v becomes %d, want %d", x, got, want)
		}
	}
	if _, tokens, interval := (size{50, 0.1}).rounded(); tokens != 6 || interval != time.Minute {
		t.Errorf("0.1 a second is %d in %s", tokens, interval)
	}
	if _, tokens, interval := (size{50, 12.5}).rounded(); tokens != 13 || interval != time.Second {
		t.Errorf("12.5 a second is %d in %s", tokens, interval)
	}
	if burst, tokens, interval := (size{1e6, 0.1}).rounded(); time.Duration(burst)*interval/time.Duration(tokens) > 720*time.Hour {
		t.Errorf("%d tokens are back after %s, want 720h at most", burst, time.Duration(burst)*interval/time.Duration(tokens))
	}
}
