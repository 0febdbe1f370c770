// Package lint is the command that says what is wrong with policies and quotas, without a recording of Events.
package lint

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
)

// formatGitHub is the format of annotations of GitHub.
const formatGitHub = "github"

// options are the flags.
type options struct {
	policyfile.Input

	Output string
	Strict bool
}

// Command is eventquota lint.
func Command() *cobra.Command {
	o := &options{Output: output.Table}
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Say what is wrong with policies and quotas",
		Long: `Lint reads policies and quotas and says what is not valid, with the file, the line
and the field, as the API server and the webhook would: unknown fields, values that
are not allowed, conditions that do not compile or cost too much, and more rules than
may be in force in a namespace.

It warns of policies that never govern and limits that never apply, as another one
always goes before them, and of controllers, kinds and reasons that are near to those
of Kubernetes and no such: Kubelet for kubelet. It shows what each condition may cost.

FILE is a file of YAML or JSON, a directory of such files, or - for standard input.
Objects of other kinds are passed over and counted, but a file with nothing else in it
is an error. Of a directory of kustomize, the files in it are read as they are, with
its namespace and without its patches; to check what it makes:

  kubectl kustomize DIRECTORY | eventquota lint -

Lint asks no cluster: a rule is not compared with those that are there. It fails if
anything is not valid, and with --strict if there is a warning.`,
		Example: `  eventquota lint policies/
  eventquota lint policies/ -o json | jq '.findings[] | select(.severity == "error")'
  helm template chart/ | eventquota lint --strict -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("lint: must be given files or directories, or - for standard input")
			}
			o.Paths, o.Stdin = args, cmd.InOrStdin()
			if err := o.run(cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("lint: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Strict, "strict", o.Strict, "fail if there is a warning")
	f.BoolVarP(&o.Recursive, "recursive", "R", o.Recursive, "read directories within directories too")
	f.BoolVar(&o.AllowUnrelated, "ignore-others", o.AllowUnrelated, "pass over a file that has no policy or quota in it, as in directories")
	f.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "namespace of EventPolicies and EventQuotas that name none, as of kubectl apply")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.Table, output.JSON, formatGitHub},
		"format: table, json, or github for annotations of a workflow of GitHub")
	return cmd
}

func (o *options) run(to io.Writer) error {
	rules, err := policyfile.Read(o.Input)
	if err != nil {
		return err
	}
	r := newReport(rules)
	out := bufio.NewWriter(to) // which keeps its first error for Flush
	switch o.Output {
	case output.JSON:
		_, err = output.Write(out, output.JSON, r)
	case formatGitHub:
		r.writeAnnotations(out)
	default:
		r.writeText(out)
	}
	if err := cmp.Or(err, out.Flush()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return r.verdict(o.Strict)
}

// verdict is the error with which lint ends, or nil.
func (r *report) verdict(strict bool) error {
	errs, warnings := policyfile.Count(r.Errors, "error"), policyfile.Count(r.Warnings, "warning")
	switch {
	case r.Errors > 0 && r.Warnings > 0:
		return fmt.Errorf("%s and %s", errs, warnings)
	case r.Errors > 0:
		return errors.New(errs)
	case r.Warnings > 0 && strict:
		return fmt.Errorf("%s, and --strict allows none", warnings)
	}
	return nil
}
