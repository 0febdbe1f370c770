// Package check is the command that checks that the API server calls the webhook, and shows the priority levels of Event writes.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
)

// options are the flags of check.
type options struct {
	Cluster   *apiserver.Flags
	Namespace string
	Events    int
	Timeout   time.Duration
}

func (o *options) validate() error {
	var errs []error
	if wrong := validation.IsDNS1123Label(o.Namespace); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, strings.Join(wrong, "; ")))
	}
	if o.Events < 2 {
		errs = append(errs, fmt.Errorf("--events %d: must be at least 2", o.Events))
	}
	if o.Timeout < time.Second {
		errs = append(errs, fmt.Errorf("--timeout %s: must be at least 1s", o.Timeout))
	}
	return errors.Join(errs...)
}

// Command returns the command eventquota check.
func Command() *cobra.Command {
	o := &options{Namespace: metav1.NamespaceDefault, Events: 60, Timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that the API server calls the webhook for Events",
		Long: `Check writes equal Events about an object that does not exist, until the webhook
refuses one. That is the second, which it merges into the first. If it does not
merge them, it is the first one without a token. Check fails if all are admitted.

It needs the right to create Events in --namespace. They expire there as all
Events do.

It also shows which FlowSchema and priority level of API priority and fairness apply
to Event writes of a node, a kube-system controller, a service account and
eventquota itself, and how many seats each level has. To find out, it tries to write
an Event as each of them: a dry run, which may be refused. It asks one API server;
others may have other limits, or may not have read all FlowSchemas yet. A line that
begins with "warning:" reports a FlowSchema of eventquota that is missing, has no
effect, or comes after another one that matches the same Event writes. A line that
begins with "not checked:" names something that could not be read, and the right to
grant. Check does not fail for either.

For this it needs the right to list flowschemas and prioritylevelconfigurations, to
get /metrics, and to impersonate user eventquota-check, group system:nodes, service
account eventquota-check in kube-system and in --namespace, and eventquota's own
service account. Without the right to impersonate, it shows the priority level of the
account that runs it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			config, _, err := o.Cluster.Config()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
			defer cancel()
			return o.run(ctx, cmd.OutOrStdout(), config)
		},
	}
	f := cmd.Flags()
	o.Cluster = apiserver.AddFlags(f, false)
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace to write Events in; the webhook configurations must not exclude it")
	f.IntVar(&o.Events, "events", o.Events, "maximum number of Events to write, at least 2; if Events are not merged, it must exceed the burst of the bucket that refuses them")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "maximum time for all checks, at least 1s")
	return cmd
}

// run returns an error if the API server does not call the webhook. It also prints the priority levels, which do not depend on the
// webhook and cause no error.
func (o *options) run(ctx context.Context, out io.Writer, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	refusal, err := o.testWebhook(ctx, client.CoreV1().Events(o.Namespace))
	if err == nil {
		fmt.Fprintln(out, "The API server calls the webhook, which refused an Event:", text.Sanitize(refusal))
	}
	if noResponse := (*url.Error)(nil); !errors.As(err, &noResponse) {
		for _, line := range checkFlowControl(ctx, config, client, o.Namespace) {
			fmt.Fprintln(out, text.Sanitize(line))
		}
	}
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}
