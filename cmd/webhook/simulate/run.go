package simulate

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	"github.com/eventquota/eventquota/manifests"
)

const (
	// memoryLimit is where the garbage collector begins to work harder, in bytes: above what stores may take, so that it has
	// something to collect. More may be in use.
	memoryLimit = 136 << 20
	// perWrite is how many bytes more each write may take beyond a million, and a million writes are within memoryLimit.
	perWrite, writesWithin = 40, 1_000_000
	// collectAt is by how many percent what is in use grows, within that limit, before garbage is collected.
	collectAt = 200
)

// limitMemory bounds memory for as many writes, until restore is called.
func limitMemory(writes int64) (restore func()) {
	limit := debug.SetMemoryLimit(memoryLimit + max(0, writes-writesWithin)*perWrite)
	percent := debug.SetGCPercent(collectAt)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}

// simulate reads the files, runs each set of policies and prints what became of it.
func (o *options) simulate(ctx context.Context, cmd *cobra.Command, files []string) error {
	defer limitMemory(0)()
	sets, err := o.sets(ctx)
	if err != nil {
		return err
	}
	for _, set := range sets {
		for _, note := range set.Passed.Notes() {
			fmt.Fprintln(cmd.ErrOrStderr(), text.Visible("note: "+note))
		}
	}
	sources, err := o.sources(cmd.InOrStdin(), files)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	bar := newProgress(cmd.ErrOrStderr(), o.lines(cmd))
	defer bar.end()
	bar.begin("reading", sizeOf(sources), true)
	for i := range sources {
		sources[i] = bar.counted(sources[i])
	}
	trace, err := simulate.Read(ctx, sources, o.ExemptUsers)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	defer trace.Close()
	defer limitMemory(trace.Input.Entries)()
	r := report.Report{Input: trace.Input}
	if trace.Input.Most == 0 {
		return errors.Join(r.WriteInput(cmd.ErrOrStderr()), noWrites(&trace.Input))
	}
	out := bufio.NewWriter(cmd.OutOrStdout()) // which keeps its first error for Flush
	opts := simulate.Options{EventTTL: o.EventTTL, Progress: bar.add}
	if o.Output == decisions {
		lines := json.NewEncoder(text.JSON(out))
		lines.SetEscapeHTML(false)
		opts.Decided = func(d simulate.Decision) { _ = lines.Encode(d) }
	}
	for _, set := range sets {
		for _, bound := range trace.Input.Bounds() {
			opts.Rules, opts.Bound = simulate.Rules{Cluster: set.Cluster, Namespaces: set.Known()}, bound
			bar.begin("deciding", trace.Input.Writes(bound), false)
			run := report.Run{Under: set.name, Bound: bound, LeftOut: set.leftOut}
			if run.Result, err = trace.Run(ctx, opts); err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			r.Runs = append(r.Runs, run)
			opts.Decided = nil // those of the first run are enough
		}
	}
	bar.end()
	if err := errors.Join(o.write(out, &r), out.Flush()); err != nil {
		return fmt.Errorf("simulate: write the report: %w", err)
	}
	return nil
}

// lines is where lines go while writes are decided; nil for nowhere.
func (o *options) lines(cmd *cobra.Command) io.Writer {
	if o.Output == decisions {
		return cmd.OutOrStdout()
	}
	return nil
}

// sizeOf is how many bytes sources have, or -1 where that is not known.
func sizeOf(sources []simulate.Source) (size int64) {
	for i := range sources {
		if sources[i].Size < 0 {
			return -1
		}
		size += sources[i].Size
	}
	return max(size, 1)
}

// noWrites says that there is nothing to simulate.
func noWrites(in *simulate.Input) error {
	if len(in.Unknown) > 0 {
		return errors.New("simulate: no Event write in the input has its content: the audit policy must have the level Request or RequestResponse for events")
	}
	return errors.New("simulate: there are no Event writes in the input")
}

// sources are what to read.
func (o *options) sources(stdin io.Reader, files []string) ([]simulate.Source, error) {
	switch o.Sample {
	case churn:
		return []simulate.Source{simulate.From("sample churn", sample.Churn())}, nil
	case quiet:
		return []simulate.Source{simulate.From("sample quiet", sample.Quiet(o.SampleNodes))}, nil
	case narrow:
		return []simulate.Source{simulate.From("sample narrow", sample.Narrow())}, nil
	case probes:
		return []simulate.Source{simulate.From("sample probes", sample.Probes())}, nil
	}
	var all []simulate.Source
	for _, file := range files {
		if file == "-" {
			all = append(all, simulate.From("standard input", stdin))
			continue
		}
		found, err := filesAt(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// filesAt is the file at a path or, of a directory, all files in it and below.
func filesAt(path string) (all []simulate.Source, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	source := func(path string, info fs.FileInfo, found bool) simulate.Source {
		size := info.Size()
		if !info.Mode().IsRegular() { // a pipe
			size = -1
		}
		return simulate.Source{Name: path, Size: size, Found: found, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	}
	if !info.IsDir() {
		return []simulate.Source{source(path, info, false)}, nil
	}
	err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			all = append(all, source(path, info, true))
		}
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: there is no file in it", path)
	}
	return all, err
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
	first, err := o.firstSet(ctx)
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

// firstSet is the set to judge.
func (o *options) firstSet(ctx context.Context) (policySet, error) {
	switch {
	case o.Kubeconfig != "":
		return ofCluster(ctx, o.Kubeconfig)
	case o.Sample != "" && len(o.Policies) == 0: // there is no cluster whose policies are known
		return ofInstallation()
	}
	return ofFiles("policies", o.Policies)
}

// defaultSet names the built-in default, and installedSet what every installation applies.
const (
	defaultSet   = "default"
	installedSet = "the policies of every installation"
)

func ofInstallation() (policySet, error) {
	documents, err := manifests.Policies()
	if err != nil {
		return policySet{}, err
	}
	rules, err := policyfile.New()
	if err != nil {
		return policySet{}, err
	}
	for _, document := range documents {
		if err := rules.Decode(document); err != nil {
			return policySet{}, err
		}
	}
	return policySet{Rules: rules, name: installedSet}, nil
}

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
