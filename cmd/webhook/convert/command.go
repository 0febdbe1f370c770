// Package convert is the command that makes a policy of an EventRateLimit configuration.
package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are the flags of convert.
type options struct {
	Name   string
	Output string
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Name, "name", o.Name, "name of the policy")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format of the policy, yaml or json")
}

func (o *options) validate() error {
	var errs []error
	if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--name %q: %s", o.Name, strings.Join(wrong, "; ")))
	}
	if !slices.Contains([]string{"yaml", "json"}, o.Output) {
		errs = append(errs, fmt.Errorf("--output %q: must be yaml or json", o.Output))
	}
	return errors.Join(errs...)
}

// Command is eventquota convert.
func Command() *cobra.Command {
	o := &options{Name: "eventratelimit", Output: "yaml"}
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert an EventRateLimit configuration into a policy",
		Long: `Convert reads the configuration of kube-apiserver's EventRateLimit plugin and
prints a ClusterEventPolicy with the same limits as quotas.

FILE is a Configuration of eventratelimit.admission.k8s.io/v1alpha1, or the
AdmissionConfiguration of apiserver.config.k8s.io/v1 that holds it or names its
file, relative to its own; - reads standard input, and files relative to the
working directory.

The policy admits what its quotas allow, and neither merges nor limits Events
otherwise. Its quotas are for the whole cluster, where EventRateLimit counts in
each API server for itself, and for Events of events.k8s.io too, which
EventRateLimit lets pass. What has no counterpart is said in comments of the
YAML, with -o json on standard error.`,
		Example: `  eventquota convert /etc/kubernetes/admission.yaml | kubectl apply -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("convert: must be given one file, or - for standard input, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			in := newConfigFile(args[0], cmd.InOrStdin())
			converted, err := in.convert()
			if err != nil {
				return fmt.Errorf("convert: %s: %w", in.name, err)
			}
			if o.Output == "json" {
				return converted.writeJSON(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.Name)
			}
			return converted.writeYAML(cmd.OutOrStdout(), o.Name)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
