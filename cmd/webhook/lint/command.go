// Package lint is the command that reports errors and warnings in files of policies and quotas.
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

// formatGitHub writes annotations for GitHub Actions.
const formatGitHub = "github"

// options are the flags.
type options struct {
	policyfile.Input

	Output string
	Strict bool
}

// Command returns eventquota lint.
func Command() *cobra.Command {
	o := &options{Output: output.Table}
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check files of policies and quotas",
		Long: `Lint reads policies and quotas and reports each error with its file, line and field.
It applies the checks of the API server and the webhook. They find unknown fields,
values that are not allowed, and conditions that do not compile or cost too much. They
also find more policies and quotas than can be in force in a namespace.

It warns about policies that never govern and limits that never apply, because another
always comes first. It also warns about controllers, kinds and reasons that look
like a misspelled name of Kubernetes, such as Kubelet for kubelet. It shows the
maximum cost of each condition.

FILE is a YAML or JSON file, a directory of such files, or - for standard input.
Objects of other kinds are skipped and counted. A file that has nothing else is an
error. In a directory with a kustomization, lint reads the files as they are, with the
namespace of the kustomization and without its patches. To check its output:

  kubectl kustomize DIRECTORY | eventquota lint -

Lint reads no cluster, so it does not compare the files with policies and quotas there.
It fails if there is an error or, with --strict, a warning.`,
		Example: `  eventquota lint policies/
  eventquota lint policies/ -o json | jq '.findings[] | select(.severity == "error")'
  helm template chart/ | eventquota lint --strict -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("lint: name at least one file or directory, or - for standard input")
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
	f.BoolVarP(&o.Recursive, "recursive", "R", o.Recursive, "read subdirectories too")
	f.BoolVar(&o.AllowUnrelated, "ignore-others", o.AllowUnrelated, "skip named files that have no policy or quota, as files in directories are")
	f.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "namespace of EventPolicies and EventQuotas that do not name one, as in kubectl apply")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.Table, output.JSON, formatGitHub},
		"format: table, json, or github for annotations of GitHub Actions")
	return cmd
}

func (o *options) run(to io.Writer) error {
	rules, err := policyfile.Read(o.Input)
	if err != nil {
		return err
	}
	r := newReport(rules)
	out := bufio.NewWriter(to) // keeps its first error for Flush
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

// verdict returns the error that lint ends with, or nil.
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
