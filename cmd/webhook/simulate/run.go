package simulate

import (
	"bufio"
	"cmp"
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
	"github.com/eventquota/eventquota/admission/simulate/sample"
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
	for _, set := range sets {
		for _, note := range set.Passed.Notes() {
			fmt.Fprintln(cmd.ErrOrStderr(), text.Visible("note: "+note))
		}
	}
	name, in, err := o.input(cmd.InOrStdin(), files)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer in.Close()
	trace, err := simulate.Read(ctx, name, in, o.ExemptUsers)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer trace.Close()
	r := report.Report{Input: trace.Input}
	if trace.Input.Most == 0 {
		return errors.Join(r.WriteInput(cmd.ErrOrStderr()), errors.New("simulate: there are no Event writes in the input"))
	}
	out := bufio.NewWriter(cmd.OutOrStdout()) // which keeps its first error for Flush
	opts := simulate.Options{}
	if o.Output == decisions {
		lines := json.NewEncoder(text.JSON(out))
		lines.SetEscapeHTML(false)
		opts.Decided = func(d simulate.Decision) { _ = lines.Encode(d) }
	}
	for _, set := range sets {
		for _, bound := range trace.Input.Bounds() {
			opts.Rules, opts.Bound = simulate.Rules{Cluster: set.Cluster, Namespaces: set.Known()}, bound
			run := report.Run{Under: set.name, Bound: bound, LeftOut: set.leftOut}
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
	return nil
}

// input is what to read, and its name.
func (o *options) input(stdin io.Reader, files []string) (name string, in io.ReadCloser, err error) {
	switch {
	case o.Sample == churn:
		return "sample churn", sample.Churn(), nil
	case o.Sample == quiet:
		return "sample quiet", sample.Quiet(o.SampleNodes), nil
	case files[0] == "-":
		return "standard input", io.NopCloser(stdin), nil
	}
	in, err = os.Open(files[0])
	return files[0], in, err
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
		return r.WriteText(w)
	}
	return nil
}

// policySet is a set of policies to run.
type policySet struct {
	*policyfile.Rules

	name    string
	leftOut []string // of a cluster, and why
}

// sets are the sets of policies that the flags ask for, the one to judge first.
func (o *options) sets(ctx context.Context) ([]policySet, error) {
	first, err := ofFiles("policies", o.Policies)
	if o.Kubeconfig != "" {
		first, err = ofCluster(ctx, o.Kubeconfig)
	}
	if err != nil || len(o.Compare) == 0 {
		return []policySet{first}, err
	}
	second, err := ofFiles("compare", o.Compare)
	if err != nil {
		return nil, err
	}
	second.TakeNamespaces(first.Rules) // they are not what is compared
	return []policySet{first, second}, nil
}

// defaultSet names the built-in default.
const defaultSet = "default"

func ofFiles(flag string, paths []string) (policySet, error) {
	if slices.Equal(paths, []string{defaultSet}) {
		paths = nil
	}
	rules, err := policyfile.Read(policyfile.Input{Paths: paths})
	if err == nil {
		err = utilerrors.NewAggregate(rules.Invalid)
	}
	if err == nil && len(paths) > 0 && len(rules.Objects)+len(rules.Namespaces) == 0 {
		err = fmt.Errorf("%s: has no policy or quota in it", strings.Join(paths, ","))
	}
	if err != nil {
		return policySet{}, fmt.Errorf("--%s: %w", flag, err)
	}
	return policySet{Rules: rules, name: cmp.Or(strings.Join(paths, ","), defaultSet)}, nil
}

func ofCluster(ctx context.Context, kubeconfig string) (policySet, error) {
	config, err := apiserver.Config(kubeconfig)
	if err != nil {
		return policySet{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	rules, err := policyfile.OfCluster(ctx, config, "")
	if err == nil && slices.Contains(rules.Invalid, policyfile.ErrNoPolicies) {
		err = policyfile.ErrNoPolicies
	}
	if err != nil {
		return policySet{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	set := policySet{Rules: rules, name: "the cluster of " + kubeconfig}
	for _, why := range rules.Invalid { // a tenant's must not keep others from being simulated
		set.leftOut = append(set.leftOut, why.Error())
	}
	return set, nil
}
