package recommend

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/recommend"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/cmd/webhook/replay"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// recommendation has the proposed quotas, and their simulation on the same Events. Its JSON is the output of -o json.
type recommendation struct {
	*recommend.Proposal

	// UsualRefused counts the usual Events that quotas would have refused, by limit. Either they share a bucket with a storm, or the
	// limit belongs to an existing quota.
	UsualRefused map[string]int64 `json:"usualRefused,omitempty"`
	// Unknown has sentences about what the recording cannot show.
	Unknown []string `json:"unknown"`
	// Simulation has runs with the proposed quotas and the existing rules, and runs with the existing rules alone.
	Simulation report.Report `json:"simulation"`

	yaml string
}

// recommend reads the recording and prints the recommendation.
func (o *options) recommend(ctx context.Context, cmd *cobra.Command, files []string) error {
	defer replay.LimitMemory(0)()
	set, err := o.set(ctx)
	if err != nil {
		return err
	}
	for _, note := range set.Unrelated.Notes() {
		fmt.Fprintln(cmd.ErrOrStderr(), text.Sanitize("note: "+note))
	}
	bar := replay.NewProgress(cmd.ErrOrStderr(), nil)
	defer bar.End()
	sources, err := o.sources(ctx, cmd.InOrStdin(), files)
	if err != nil {
		return fmt.Errorf("recommend: %w", err)
	}
	trace, err := bar.ReadTrace(ctx, sources, o.Exempt)
	if err != nil {
		return fmt.Errorf("recommend: %w", err)
	}
	defer trace.Close()
	defer replay.LimitMemory(trace.Input.Entries)()
	r, err := o.proposeQuotas(ctx, trace, set, bar)
	bar.End()
	if err != nil {
		in := report.Report{Input: trace.Input}
		return errors.Join(in.WriteInput(cmd.ErrOrStderr()), fmt.Errorf("recommend: %w", err))
	}
	out := bufio.NewWriter(cmd.OutOrStdout()) // keeps its first error for Flush
	if err := errors.Join(o.write(out, r), out.Flush()); err != nil {
		return fmt.Errorf("recommend: write: %w", err)
	}
	return nil
}

// set returns the policies that merge Events before quotas count them. A cluster without eventquota gets those of the default
// installation.
func (o *options) set(ctx context.Context) (*replay.Set, error) {
	set, err := o.Set(ctx)
	if errors.Is(err, policyfile.ErrNoCRDs) {
		return (&replay.Policies{}).Set(ctx)
	}
	return set, err
}

// sources returns the recording, or the Events that a cluster stores.
func (o *options) sources(ctx context.Context, stdin io.Reader, files []string) ([]simulate.Source, error) {
	if len(files) > 0 || o.Sample != "" {
		return o.Sources(stdin, files)
	}
	source, err := storedEvents(ctx, o.Kubeconfig)
	return []simulate.Source{source}, err
}

// proposeQuotas sizes quotas by a trace, and simulates them on it together with a set of policies.
func (o *options) proposeQuotas(ctx context.Context, trace *simulate.Trace, set *replay.Set, bar *replay.Progress) (*recommendation, error) {
	if trace.Input.Most == 0 {
		return nil, replay.ErrNoWrites(&trace.Input)
	}
	opts := simulate.Options{Rules: set.ForSimulation(), Bound: trace.Input.Bounds()[0], EventTTL: o.EventTTL, Progress: bar.Add}
	bar.Begin("counting", trace.Input.Writes(opts.Bound), false)
	seen, err := recommend.Observe(ctx, trace, opts)
	if err != nil {
		return nil, err
	}
	r := &recommendation{
		Proposal:     seen.Propose(recommend.Options{Headroom: o.Headroom, Expected: o.expected()}),
		UsualRefused: map[string]int64{}, Simulation: report.Report{Input: trace.Input},
	}
	if r.Usual == 0 {
		return nil, errNothingUsual(r.Proposal)
	}
	r.Unknown = limitations(&trace.Input, r.Proposal)
	for _, value := range o.Expected {
		if origin, _ := parseExpected(value); !seen.HasOrigin(func(from recommend.Origin) bool { return originMatches(from, origin) }) {
			r.Unknown = append(r.Unknown, fmt.Sprintf("--expected %s: the recording has no such Events.", value))
		}
	}
	var yaml strings.Builder
	if err := r.WriteYAML(&yaml); err != nil {
		return nil, err
	}
	r.yaml = yaml.String()
	return r, o.simulate(ctx, trace, set, r, bar)
}

// errNothingUsual returns the error for a recording without usual Events.
func errNothingUsual(p *recommend.Proposal) error {
	if p.Events == 0 {
		return errors.New("no Event in the recording takes a token, because the policies merge or drop all of them")
	}
	return errors.New("the whole recording is a storm: record a time without one, exempt a writer with --expected," +
		" or start with the quotas for your number of nodes, manifests/components/recommended-*-nodes")
}

// simulate runs a trace with the proposed quotas and without them.
func (o *options) simulate(ctx context.Context, trace *simulate.Trace, set *replay.Set, r *recommendation, bar *replay.Progress) error {
	with, err := mergeRules(set, r)
	if err != nil {
		return err
	}
	for _, bound := range trace.Input.Bounds() {
		opts := simulate.Options{Bound: bound, EventTTL: o.EventTTL, Progress: bar.Add}
		for i, run := range []report.Run{{Policies: "the proposed quotas", Excluded: set.Excluded}, {Policies: "the existing rules alone"}} {
			opts.Rules, opts.Decided = set.ForSimulation(), nil
			if i == 0 {
				opts.Rules = with
				opts.Decided = func(d simulate.Decision) {
					if d.Outcome == admission.Dropped && bound == trace.Input.Bounds()[0] && isQuota(d.Rule) &&
						r.IsUsual(recommend.Origin{Namespace: d.Namespace, Controller: d.Controller}, d.Type, d.Time) {
						r.UsualRefused[d.String()]++
					}
				}
			}
			run.Bound = bound
			bar.Begin("deciding", trace.Input.Writes(bound), false)
			if run.Result, err = trace.Run(ctx, opts); err != nil {
				return err
			}
			r.Simulation.Runs = append(r.Simulation.Runs, run)
		}
	}
	return nil
}

// isQuota reports whether a rule, named as in decisions, is a quota.
func isQuota(rule string) bool {
	kind, _, _ := strings.Cut(rule, " ")
	return kind == v1alpha1.KindClusterEventQuota || kind == v1alpha1.KindEventQuota
}

// isProposed reports whether a quota, named as in decisions, is a proposed one.
func (r *recommendation) isProposed(name string) bool {
	return slices.ContainsFunc(r.Quotas, func(q recommend.Quota) bool { return "ClusterEventQuota "+q.Name == name })
}

// mergeRules returns the rules of a set and the proposed quotas. These replace quotas with the same names.
func mergeRules(set *replay.Set, r *recommendation) (simulate.Rules, error) {
	proposed, err := policyfile.New()
	if err != nil {
		return simulate.Rules{}, err
	}
	if err := proposed.Decode([]byte(r.yaml)); err != nil {
		return simulate.Rules{}, err
	}
	rules := set.ForSimulation()
	rules.Cluster.Quotas = slices.Clone(proposed.Cluster.Quotas)
	for _, q := range set.Cluster.Quotas {
		if !r.isProposed(q.Name) {
			rules.Cluster.Quotas = append(rules.Cluster.Quotas, q)
		}
	}
	return rules, nil
}

// expected returns a function that reports whether --expected exempts an origin.
func (o *options) expected() func(recommend.Origin) bool {
	var all []recommend.Origin
	for _, value := range o.Expected {
		origin, _ := parseExpected(value) // validate has checked it
		all = append(all, origin)
	}
	return func(from recommend.Origin) bool {
		return slices.ContainsFunc(all, func(pattern recommend.Origin) bool { return originMatches(from, pattern) })
	}
}

// originMatches reports whether an origin matches a pattern of --expected, in which an empty part matches any.
func originMatches(from, pattern recommend.Origin) bool {
	return cmp.Or(pattern.Namespace, from.Namespace) == from.Namespace && cmp.Or(pattern.Controller, from.Controller) == from.Controller
}

// parseExpected parses a value of --expected into a pattern for originMatches. ok is false if the value is invalid.
func parseExpected(value string) (pattern recommend.Origin, ok bool) {
	namespace, controller, both := strings.Cut(value, "/")
	return recommend.Origin{Namespace: namespace, Controller: controller}, value != "" && (!both || controller != "")
}

// write writes r in the format of --output.
func (o *options) write(w io.Writer, r *recommendation) error {
	switch o.Output {
	case output.JSON:
		_, err := output.Write(w, output.JSON, r)
		return err
	case output.YAML:
		return r.writeYAML(w)
	}
	return r.writeText(w)
}
