// Package convert is the command that turns an EventRateLimit configuration into a quota.
package convert

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// options are the flags of convert.
type options struct {
	Name   string
	Output string
}

// Command is eventquota convert.
func Command() *cobra.Command {
	o := &options{Name: "eventratelimit", Output: output.YAML}
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert an EventRateLimit configuration into a quota",
		Long: `Convert reads the configuration of kube-apiserver's EventRateLimit plugin and
prints a ClusterEventQuota with the same limits.

FILE is a Configuration of eventratelimit.admission.k8s.io/v1alpha1, or the
AdmissionConfiguration of apiserver.config.k8s.io/v1 that holds it or names its
file, relative to its own; - reads standard input, and files relative to the
working directory.

A limit of type Server becomes one bucket for the whole cluster; the others have one
for each namespace, user, or source and object. EventRateLimit counts in each API
server for itself, and lets Events of events.k8s.io pass; the quota has one count for
all API servers, and limits those Events too. The policies that govern merge and limit
Events beside it, the built-in default too; what is merged takes no token. What has no
counterpart is said in comments of the YAML, with -o json on standard error.`,
		Example: `  eventquota convert /etc/kubernetes/admission.yaml | kubectl apply -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("convert: must be given one file, or - for standard input, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 {
				return fmt.Errorf("--name %q: %s", o.Name, strings.Join(wrong, "; "))
			}
			converted, err := convertFile(args[0], cmd.InOrStdin())
			if err != nil {
				name := args[0]
				if name == stdinPath {
					name = "standard input"
				}
				return fmt.Errorf("convert: %s: %w", name, err)
			}
			if err := converted.write(cmd, o); err != nil {
				return fmt.Errorf("convert: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", o.Name, "name of the quota")
	output.OneOf(cmd, &o.Output, "output", "o", []string{output.YAML, output.JSON}, "format of the quota, yaml or json")
	return cmd
}
