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
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
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
	sources := sourcesOf(files, cmd.InOrStdin())
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
		r.WriteInput(cmd.ErrOrStderr())
		return errors.New("simulate: there are no Event writes in the input")
	}
	bounds := map[simulate.Bound]string{simulate.Most: ""}
	if trace.Input.Fewest < trace.Input.Most {
		bounds = map[simulate.Bound]string{simulate.Most: "most", simulate.Fewest: "fewest"}
	}
	out := bufio.NewWriter(cmd.OutOrStdout()) // which keeps its first error for Flush
	opts := simulate.Options{StoreBytes: o.StoreMemory.Value(), EventTTL: o.EventTTL}
	if o.Output == decisions {
		lines := json.NewEncoder(text.JSON(out))
		lines.SetEscapeHTML(false)
		opts.Decided = func(d simulate.Decision) { _ = lines.Encode(d) }
	}
	for _, set := range sets {
		for bound := range simulate.Bound(len(bounds)) {
			opts.Rules, opts.Bound = set.rules, bound
			run := report.Run{Under: set.name, Bound: bounds[bound]}
			if run.Result, err = trace.Run(ctx, opts); err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			r.Runs = append(r.Runs, run)
			opts.Decided = nil // those of the first run are enough
		}
	}
	if err := errors.Join(o.write(out, &r), out.Flush()); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return o.failure(&r)
}

// sourcesOf are files, with - for standard input.
func sourcesOf(paths []string, stdin io.Reader) []simulate.Source {
	all := make([]simulate.Source, 0, len(paths))
	for _, path := range paths {
		source := simulate.Source{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
		if path == "-" {
			source = simulate.Source{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}
		}
		all = append(all, source)
	}
	return all
}

// write writes the report in the format that was asked for.
func (o *options) write(w io.Writer, r *report.Report) error {
	switch o.Output {
	case html:
		return r.WritePage(w)
	case output.JSON:
		_, err := output.Write(w, output.JSON, r)
		return err
	case output.Table:
		r.WriteText(w)
	}
	return nil
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
	if err == nil {
		err = utilerrors.NewAggregate(r.Invalid)
	}
	return r, err
}
