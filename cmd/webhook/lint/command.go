// Package lint is the command that checks files of policies and quotas.
package lint

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
)

// Command is eventquota lint.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check files of policies and quotas",
		Long: `Lint reads policies and quotas and says what is wrong with them, a line each:

  error     what the API server or the webhook would not accept: an unknown field, a
            value out of bounds, an expression that does not compile or reads a field
            that Events do not have
  warning   what is accepted and has no effect: a rule that is disabled, that selects
            no namespace of the files, or that can never apply, as others stand before it

FILE is YAML or JSON, or a directory of .yaml, .yml and .json files. Namespaces in the
files have the labels by which they are selected. What recorded Events would meet, and
which rules they would not, is said by eventquota simulate.

It exits with 1 when there is an error, and with 0 when there are warnings only.`,
		Example: `  eventquota lint policies/
  kubectl get cevp,cevq,evp,evq,ns -A -o yaml > rules.yaml && eventquota lint rules.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("lint: must be given files")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return lint(cmd.OutOrStdout(), args) },
	}
}

// lint checks files, and fails if there is an error in them.
func lint(w io.Writer, paths []string) error {
	rules, err := policyfile.Read(paths)
	if err != nil {
		return fmt.Errorf("lint: %w", err)
	}
	for _, err := range rules.Invalid {
		fmt.Fprintln(w, "error:", text.Visible(err.Error()))
	}
	warnings := warningsOf(rules)
	for _, warning := range warnings {
		fmt.Fprintln(w, "warning:", text.Visible(warning))
	}
	if len(rules.Invalid) > 0 {
		return fmt.Errorf("lint: errors: %d", len(rules.Invalid))
	}
	if len(warnings) == 0 {
		fmt.Fprintln(w, "no errors, no warnings")
	}
	return nil
}
