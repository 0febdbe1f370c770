package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/page"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

// memoryLimit is where the garbage collector begins to work harder, in bytes. More may be in use.
const memoryLimit = 120 << 20

// simulate reads the files, runs each set of policies and prints what became of it.
func (o *options) simulate(ctx context.Context, cmd *cobra.Command, files []string) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	sets, err := o.sets(ctx)
	if err != nil {
		return err
	}
	shown := newProgress(cmd.ErrOrStderr())
	defer shown.clear()
	sources := shown.sources(files, cmd.InOrStdin())
	if o.Sample.Kind != "" {
		made, err := o.Sample.Source()
		if err != nil {
			return fmt.Errorf("--sample: %w", err)
		}
		sources = []simulate.Source{made}
	}
	trace, err := simulate.Read(ctx, sources, simulate.ReadOptions{Exempt: o.ExemptUsers})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer trace.Close()
	r := report.Report{Input: trace.Input}
	if trace.Input.Most == 0 {
		shown.clear()
		r.WriteInput(cmd.ErrOrStderr())
		return errors.New("simulate: there are no Event writes in the input")
	}
	bounds := map[simulate.Bound]string{simulate.Most: ""}
	if trace.Input.Fewest < trace.Input.Most {
		bounds = map[simulate.Bound]string{simulate.Most: "most", simulate.Fewest: "fewest"}
	}
	opts := simulate.Options{StoreBytes: o.StoreMemory.Value(), EventTTL: o.EventTTL, Progress: shown.deciding}
	decisions := o.Decisions // of the first run
	for _, set := range sets {
		for bound := range simulate.Bound(len(bounds)) {
			opts.Rules, opts.Bound = set.rules, bound
			run := report.Run{Under: set.name, Writes: bounds[bound]}
			if run.Result, err = decide(ctx, trace, opts, decisions); err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			r.Runs, decisions = append(r.Runs, run), ""
		}
	}
	opts.Rules, opts.Bound = sets[0].rules, simulate.Most
	if r.Slower, err = slower(ctx, trace, opts, r.Runs[0].EtcdWrites); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	shown.clear()
	if err := o.write(cmd.OutOrStdout(), &r); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return o.failure(&r)
}

// write writes the report in the format that was asked for.
func (o *options) write(w io.Writer, r *report.Report) error {
	switch o.Output {
	case html:
		return page.Write(w, r)
	case output.JSON:
		_, err := output.Write(w, output.JSON, r)
		return err
	}
	r.WriteText(w)
	return nil
}

// decide runs a trace, and writes each decision to a file, if it has a name, as a line of JSON.
func decide(ctx context.Context, trace *simulate.Trace, opts simulate.Options, name string) (*simulate.Result, error) {
	if name == "" {
		return trace.Run(ctx, opts)
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--decisions: %w", err)
	}
	var failed error
	buffer := bufio.NewWriterSize(file, 64<<10)
	lines := json.NewEncoder(text.JSON(buffer))
	lines.SetEscapeHTML(false)
	opts.Decided = func(d simulate.Decision) {
		if failed == nil {
			failed = lines.Encode(d)
		}
	}
	result, err := trace.Run(ctx, opts)
	if failed = errors.Join(failed, buffer.Flush(), file.Close()); failed != nil {
		return nil, fmt.Errorf("--decisions: %w", failed)
	}
	return result, err
}

// policySet is one set of policies to run.
type policySet struct {
	name  string
	rules simulate.Rules
}

func newSet(name string, r *policyfile.Rules) policySet {
	return policySet{name, simulate.Rules{Cluster: r.Cluster, Namespaces: r.Namespaces}}
}

// defaultSet is how --compare names the built-in default.
const defaultSet = "default"

// sets are the sets of policies that the flags ask for, the one to judge first.
func (o *options) sets(ctx context.Context) ([]policySet, error) {
	first, err := valid(policyfile.Read(o.Policies))
	name := strings.Join(o.Policies, ",")
	switch {
	case err != nil:
		return nil, fmt.Errorf("--policies: %w", err)
	case o.Kubeconfig != "":
		if first, err = ofCluster(ctx, o.Kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		name = "the cluster of " + o.Kubeconfig
	case name == "":
		name = defaultSet
	}
	sets := []policySet{newSet(name, first)}
	if len(o.Compare) == 0 {
		return sets, nil
	}
	paths := slices.Clone(o.Compare)
	if slices.Equal(paths, []string{defaultSet}) {
		paths = nil
	}
	second, err := valid(policyfile.Read(paths))
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	second.TakeNamespaces(first) // they are not what is compared
	return append(sets, newSet(strings.Join(o.Compare, ","), second)), nil
}

// ofCluster are the policies, quotas and namespaces of a cluster. All must be valid.
func ofCluster(ctx context.Context, kubeconfig string) (*policyfile.Rules, error) {
	config, err := apiserver.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	return valid(policyfile.OfCluster(ctx, config, ""))
}

// valid is what was read, of which all must be valid.
func valid(r *policyfile.Rules, err error) (*policyfile.Rules, error) {
	if err == nil && len(r.Invalid) > 0 {
		err = r.Invalid[0]
	}
	return r, err
}
