// Package policytest is the command that tests policies and quotas. Test files say which Events are admitted, merged and
// dropped.
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

// Command returns eventquota test.
func Command() *cobra.Command {
	o := &options{Output: formatText}
	cmd := &cobra.Command{
		Use:   "test {FILE | DIR}...",
		Short: "Run tests of policies and quotas",
		Long: `Test runs test files. They state which Events are admitted, merged and dropped under some
policies and quotas. Test needs no cluster and decides with the code of the webhook.

In a DIR and below, test runs all files whose names end in ` + fileSuffix + `.yaml. This one
expects that a storm over 500 pods costs 161 writes to etcd: the 160 Normal Events that a
quota admits, and a notice about the others:

  apiVersion: ` + apiVersion + `
  kind: ` + kind + `
  policies: [fair.yaml]       # files and directories, relative to this file
  tests:
  - name: a storm over many pods is bounded
    events:
    - event: {namespace: shop, about: "Pod/web-{n}", reason: Started, controller: kubelet}
      objects: 500            # {n} is 0 to 499
      want: {admitted: 160, dropped: 340, refusedBy: namespace of ClusterEventQuota fair}
    want: {etcdWrites: 161}

Each test starts with an empty store and full buckets. Time is virtual, so no test waits.
docs/concepts.md, "Testing policies", describes all fields.

The exit code is 1 if a test fails or a file is not valid.`,
		Example: `  eventquota test policies/
  eventquota test policies/ --run 'storm|crash'
  eventquota test policies/ -o junit > report.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("test: name at least one file or directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, cmd, args)
		},
	}
	cmd.Flags().StringVar(&o.Run, "run", o.Run, "run only tests whose names match this regular expression")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{formatText, output.JSON, formatJUnit}, "format: text, json, or junit for the XML that CI systems read")
	return cmd
}

// run runs the tests at paths and writes the report.
func (o *options) run(ctx context.Context, cmd *cobra.Command, paths []string) error {
	only, err := regexp.Compile(o.Run)
	if err != nil {
		message := err.Error()
		if syntaxErr, ok := errors.AsType[*syntax.Error](err); ok {
			message = syntaxErr.Code.String()
		}
		return fmt.Errorf("--run %q: must be a regular expression: %s", o.Run, message)
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
		return fmt.Errorf("--run %q: matches no test", o.Run)
	}
	if err := r.write(cmd.OutOrStdout(), o.Output); err != nil {
		return fmt.Errorf("test: write the report: %w", err)
	}
	return r.err()
}

// add adds a file, unless it is valid and none of its tests ran.
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

// runFile runs the tests of a file whose names match. An invalid file is reported in File; an error ends the command.
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

// errorLines returns the errors of a file, one a line.
func errorLines(err error) []string {
	all, ok := errors.AsType[document.FieldErrors](err)
	if !ok {
		return []string{err.Error()}
	}
	lines := make([]string, len(all))
	for i, fieldErr := range all {
		lines[i] = fieldErr.Error()
	}
	return lines
}
