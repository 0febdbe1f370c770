package brake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// maxFor is the longest time until a brake is released by itself.
const maxFor = 7 * 24 * time.Hour

// options are the flags of brake and of the commands below it.
type options struct {
	Cluster   *apiserver.Flags
	Namespace string // empty for the brake of the cluster
	Reason    string
	For       time.Duration
	Output    string
}

func (o *options) validate() error {
	var errs []error
	if len(o.Reason) > maxTextBytes || !utf8.ValidString(o.Reason) || text.Sanitize(o.Reason) != o.Reason {
		errs = append(errs, fmt.Errorf("--reason: must be one line of at most %d bytes, without control characters", maxTextBytes))
	}
	if o.For != 0 && (o.For < time.Second || o.For > maxFor) {
		errs = append(errs, fmt.Errorf("--for %s: must be 0, or from 1s to %s", o.For, maxFor))
	}
	return errors.Join(errs...)
}

// brake returns the brake that the flags name.
func (o *options) brake() (*Brake, error) {
	config, _, err := o.Cluster.Config()
	if err != nil {
		return nil, err
	}
	return New(config, o.Namespace)
}

// Command is eventquota brake.
func Command() *cobra.Command {
	o := &options{Output: output.Table}
	cmd := &cobra.Command{
		Use:   "brake",
		Short: "Pull or release the emergency brake, which refuses all Events except Warnings",
		Long: `Brake pulls and releases the emergency brake: the ClusterEventPolicy emergency-brake,
which refuses all Events except Warnings in all namespaces while its mode is Enforce.
A change is in force within a second on every replica. Refused Events are lost; a
notice counts them. The brake needs a running webhook.

With --namespace it is the EventPolicy emergency-brake of that namespace, whatever the
namespace of the kubeconfig, and refuses only that namespace's Events.

It uses the rights of your kubeconfig: get and patch on clustereventpolicies, or
eventpolicies, named emergency-brake, and create if there is none yet.

No upgrade of the Helm chart, no sync of Flux or Argo CD and no kubectl apply
--server-side changes the mode again. A plain kubectl apply of the manifests releases
the brake, so pull it again afterwards.`,
		Example: `  eventquota brake on --reason "rollout storm" --for 30m
  kubectl eventquota brake on --namespace shop
  eventquota brake status -o json
  eventquota brake off`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	o.Cluster = apiserver.AddFlags(f, true)
	f.Lookup("namespace").Usage = "the namespace whose brake it is; default the brake of all namespaces, whatever the namespace of the kubeconfig"
	f.Lookup("kubeconfig").Usage = "kubeconfig file; default $KUBECONFIG, ~/.kube/config or the service account of the pod"
	output.RefuseEmpty(f, "namespace", "kubeconfig", "context", "cluster", "server")
	cmd.AddCommand(o.onCommand(), o.offCommand(), o.statusCommand())
	return cmd
}

// runWith returns a RunE that validates the flags and calls run with the brake that they name.
func (o *options) runWith(run func(ctx context.Context, w io.Writer, b *Brake) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		var wrong error
		o.Namespace, wrong = apiserver.ExplicitNamespace(cmd.Flag("namespace"))
		if err := errors.Join(wrong, o.validate()); err != nil {
			return err
		}
		b, err := o.brake()
		if err != nil {
			return err
		}
		if err := run(cmd.Context(), cmd.OutOrStdout(), b); err != nil {
			return fmt.Errorf("brake %s: %w", cmd.Name(), err)
		}
		return nil
	}
}

func (o *options) onCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "on",
		Short: "Refuse all Events except Warnings",
		Long: `On pulls the emergency brake, and records who did so, when and why in annotations of
its policy (eventquota.io/brake-since, -by, -reason and -until). Please give a
--reason: others will want to know.

With --for, the webhook releases the brake after that time, by its own clock. If the
webhook is down at that time, it does so when it is up again.

A brake that is on stays on: --reason and --for replace what it has, and without them
nothing changes. --for 0 removes the end. If another user changes the brake at the
same time, the command fails, and says what the brake is now.`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Reason, "reason", "", "why, for those who see the brake; at most 256 bytes")
	f.DurationVar(&o.For, "for", 0, "time after which the webhook releases the brake, from 1s to 168h; 0 for no end")
	cmd.RunE = o.runWith(func(ctx context.Context, w io.Writer, b *Brake) error {
		var r Request
		if f.Changed("reason") {
			r.Reason = &o.Reason
		}
		if f.Changed("for") {
			r.For = &o.For
		}
		s, changed, err := b.Pull(ctx, r)
		if err != nil {
			return err
		}
		if err := s.write(w, output.Table); err != nil {
			return err
		}
		if !changed {
			fmt.Fprintln(w, "\nIt was on before, and nothing has changed.")
		}
		_, err = fmt.Fprintf(w, "\nTo release it: %s\n", b.ReleaseCommand())
		return err
	})
	return cmd
}

func (o *options) offCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "off",
		Short: "Release the emergency brake",
		Long: `Off releases the emergency brake: it sets mode Disabled in its policy and removes the
annotations of the brake. A brake that is off stays off.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = o.runWith(func(ctx context.Context, w io.Writer, b *Brake) error {
		_, changed, err := b.Release(ctx)
		if err != nil {
			return err
		}
		done := "The emergency brake is off."
		if !changed {
			done = "The emergency brake was off before, and nothing has changed."
		}
		_, err = fmt.Fprintln(w, done)
		return err
	})
	return cmd
}

func (o *options) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the emergency brake is on, since when, by whom and why",
		Long: `Status shows whether the emergency brake is on, since when, who set it and why, when
the webhook releases it, and how many Events it has dropped. That count is of the last
update of the policy's status, which is up to five minutes old (--status-interval of
serve).`,
		Args: cobra.NoArgs,
	}
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", formats(), "format: "+strings.Join(formats(), ", "))
	cmd.RunE = o.runWith(func(ctx context.Context, w io.Writer, b *Brake) error {
		s, err := b.Status(ctx)
		if err != nil {
			return err
		}
		return s.write(w, o.Output)
	})
	return cmd
}

// formats are those of the status.
func formats() []string { return []string{output.Table, output.JSON, output.YAML} }
