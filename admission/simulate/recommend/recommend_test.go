package recommend

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/sample"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// proposalFor are quotas for the usual Events of a trace.
func proposalFor(t *testing.T, trace *simulate.Trace, opts Options) *Proposal {
	t.Helper()
	o, err := Observe(t.Context(), trace, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return o.Propose(opts)
}

// quotasOf are the quotas of a proposal, as YAML.
func quotasOf(t *testing.T, p *Proposal) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.WriteYAML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// rulesWith are rules that have these quotas.
func rulesWith(t *testing.T, compiler *policy.Compiler, quotas string) simulate.Rules {
	t.Helper()
	var rules simulate.Rules
	for document := range strings.SplitSeq(quotas, "---\n") {
		if document == "" {
			continue
		}
		var quota v1alpha1.ClusterEventQuota
		if err := yaml.UnmarshalStrict([]byte(document), &quota); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		compiled, err := compiler.Compile(&quota)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		rules.Cluster.Add(compiled)
	}
	return rules
}

// newCompiler returns a compiler, whose creation takes most of the time of a small test.
func newCompiler(t *testing.T) *policy.Compiler {
	t.Helper()
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return compiler
}

// outcome summarizes a run of a trace under quotas.
type outcome struct {
	*simulate.Result

	refusedQuiet map[string]int // by controller and reason: of users who are in no storm
}

func run(t *testing.T, trace *simulate.Trace, rules simulate.Rules) outcome {
	t.Helper()
	out, o := outcome{refusedQuiet: map[string]int{}}, simulate.Options{Rules: rules}
	o.Decided = func(d simulate.Decision) {
		if d.Outcome == admission.Dropped && strings.HasPrefix(d.Namespace, "team-") {
			out.refusedQuiet[d.Controller+" "+d.Reason+" "+d.Limit]++
		}
	}
	var err error
	if out.Result, err = trace.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return out
}

// storm is a storm that is recorded together with a quiet cluster.
type storm struct {
	source func() simulate.Source
	writes int64
	// wide says that it is in so many namespaces that it takes what all share.
	wide bool
}

func newStorm(name string, all iter.Seq[generatedWrite], writes int64) storm {
	return storm{source: func() simulate.Source { return auditLogOf(name, all) }, writes: writes}
}

// storms returns storms whose size fits a cluster with that many nodes. Larger clusters have larger usual peaks.
func storms(nodes int) map[string]storm {
	all := map[string]storm{
		"churn":                   {func() simulate.Source { return simulate.NewSource("churn", sample.Churn()) }, 145_259, true},
		"noisy in one namespace":  newStorm("noisy", noisy(12_000, 1), 12_000),
		"noisy in 300 namespaces": newStorm("noisy", noisy(90_000, 300), 90_000),
		"a rollout":               newStorm("rollout", rollout(3_000), 18_000),
		"probes":                  newStorm("probes", failingProbes(500), 10_000),
	}
	if nodes == 100 {
		churn := newStorm("churn", churned(17, 1_000), 51_000)
		churn.wide = true
		all["churn"], all["noisy in 300 namespaces"] = churn, newStorm("noisy", noisy(45_000, 300), 45_000)
	}
	return all
}

// TestProposalAdmitsQuietAndBoundsStorms has proposals of a quiet cluster, and of the same one in a storm.
func TestProposalAdmitsQuietAndBoundsStorms(t *testing.T) {
	t.Parallel()
	sizes, largest := []int{100, 5000}, int64(math.MaxInt64)
	if testing.Short() {
		sizes, largest = sizes[:1], 12_000
	}
	for _, nodes := range sizes {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			was := readTrace(t, quiet(nodes))
			other := readTrace(t, quiet(nodes*95/100)) // whose Events are at other times, of other namespaces
			compiler := newCompiler(t)
			neverRefused := func(quotas string, traces ...*simulate.Trace) simulate.Rules {
				rules := rulesWith(t, compiler, quotas)
				for _, trace := range traces {
					if got := run(t, trace, rules); got.Outcomes[admission.Dropped] > 0 {
						t.Errorf("%d are refused of what is quiet: %v", got.Outcomes[admission.Dropped], got.refusedQuiet)
					}
				}
				return rules
			}
			alone := run(t, was, simulate.Rules{}).EtcdWrites.After
			learned := quotasOf(t, proposalFor(t, was, Options{Headroom: 1.5}))
			rulesLearned := neverRefused(learned, was, other)
			for name, storm := range storms(nodes) {
				if storm.writes > largest {
					continue
				}
				both := readTrace(t, quiet(nodes), storm.source())
				p := proposalFor(t, both, Options{Headroom: 1.5})
				if len(p.Storms) == 0 {
					t.Errorf("%s: no storm is found", name)
				}
				learnedFrom := map[string]simulate.Rules{"the quiet cluster": rulesLearned}
				if quotas := quotasOf(t, p); quotas != learned { // mostly they are equal
					learnedFrom["the storm too"] = neverRefused(quotas, other)
				}
				for from, rules := range learnedFrom {
					got := run(t, both, rules)
					more := got.EtcdWrites.After - alone
					t.Logf("%s, learned from %s: %d of %d writes are left, %.1f %%", name, from, more, storm.writes, 100*float64(more)/float64(storm.writes))
					if more*20 > storm.writes {
						t.Errorf("%s, learned from %s: %d writes are left of %d, want 5 %% at the most", name, from, more, storm.writes)
					}
					if !storm.wide && len(got.refusedQuiet) > 0 {
						t.Errorf("%s, learned from %s: refused of what is quiet: %v", name, from, got.refusedQuiet)
					}
				}
			}
		})
	}
}
