// Package policytest is the command that holds policies and quotas to tests: files that say which Events are admitted,
// merged and dropped under them.
package policytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"regexp/syntax"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// options are the flags.
type options struct {
	Run    string
	Output string
}

// Command is eventquota test.
func Command() *cobra.Command {
	o := &options{Output: formatText}
	cmd := &cobra.Command{
		Use:   "test {FILE | DIR}...",
		Short: "Run tests of policies and quotas",
		Long: `Test runs files that say which Events are admitted, merged and dropped under which
policies and quotas, and fails where that is not so. It needs no cluster, and the code
that decides is the webhook's.

Of a DIR, it runs all files in it and below whose names end in ` + fileSuffix + `.yaml. This
one says that a storm over 500 pods costs etcd the 160 Normal Events that a quota gives,
and a notice of the rest:

  apiVersion: ` + apiVersion + `
  kind: ` + kind + `
  policies: [fair.yaml]       # files and directories, seen from this file
  tests:
  - name: a storm over many pods is bounded
    events:
    - event: {namespace: shop, about: "Pod/web-{n}", reason: Started, controller: kubelet}
      objects: 500            # {n} is 0 to 499
      want: {admitted: 160, dropped: 340, refusedBy: namespace of ClusterEventQuota fair}
    want: {etcdWrites: 161}

Each test begins with nothing stored and full buckets. Its times are virtual: nothing
waits. docs/concepts.md, "Testing policies", has all fields.

It exits with 1 if a test fails or a file is not valid.`,
		Example: `  eventquota test policies/
  eventquota test policies/ --run 'storm|crash'
  eventquota test policies/ -o junit > report.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("test: must be given files or directories")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, cmd, args)
		},
	}
	cmd.Flags().StringVar(&o.Run, "run", o.Run, "regular expression: run only tests whose names have a match")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{formatText, output.JSON, formatJUnit}, "format: text, json, or junit for the XML that CI systems read")
	return cmd
}

// run runs the files at paths.
func (o *options) run(ctx context.Context, cmd *cobra.Command, paths []string) error {
	only, err := regexp.Compile(o.Run)
	if err != nil {
		says := err.Error()
		if wrong, ok := errors.AsType[*syntax.Error](err); ok {
			says = wrong.Code.String()
		}
		return fmt.Errorf("--run %q: must be a regular expression: %s", o.Run, says)
	}
	files, err := discover(paths)
	if err != nil {
		return fmt.Errorf("test: %w", err)
	}
	r := &Report{}
	for _, name := range files {
		f, err := runFile(ctx, name, only)
		if err != nil {
			return fmt.Errorf("test: %w", err)
		}
		r.add(f)
	}
	if r.Passed+r.Failed+r.Invalid == 0 {
		return fmt.Errorf("--run %q: matches the name of no test", o.Run)
	}
	if err := r.write(cmd.OutOrStdout(), o.Output); err != nil {
		return fmt.Errorf("test: write the report: %w", err)
	}
	return r.err()
}

// add adds a file, if any of its tests were run or it is not valid.
func (r *Report) add(f *File) {
	if len(f.Errors) > 0 {
		r.Invalid++
	} else if len(f.Tests) == 0 {
		return
	}
	for _, t := range f.Tests {
		if t.Passed {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	r.Files = append(r.Files, f)
}

// runFile runs the tests of a file whose names match. The error says that it could not go on.
func runFile(ctx context.Context, name string, only *regexp.Regexp) (*File, error) {
	f := &File{Name: name}
	s, err := readSuite(name)
	if err != nil {
		f.Errors = errorLines(err)
		return f, nil
	}
	for i := range s.tests {
		if !only.MatchString(s.tests[i].Name) {
			continue
		}
		t, err := s.run(ctx, i)
		if err != nil {
			return nil, err
		}
		f.Tests = append(f.Tests, t)
	}
	return f, nil
}

// errorLines is what is wrong with a file, a line for each.
func errorLines(err error) []string {
	all, ok := errors.AsType[document.FieldErrors](err)
	if !ok {
		return []string{err.Error()}
	}
	says := make([]string, len(all))
	for i, one := range all {
		says[i] = one.Error()
	}
	return says
}
