// Package explain is the command that shows which Events about an object are merged and dropped, and why. It also has the endpoint of
// a replica that answers it. The command lists the stored Events, and the replica evaluates its policies for samples of them and reads
// its store.
package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// maxEvents bounds the Events read about objects with one name.
const maxEvents = 5000

// options are the flags of explain.
type options struct {
	Replicas *replicas.Options
	Writers  []string
	Output   string
}

// Command returns the command eventquota explain.
func Command() *cobra.Command {
	o := &options{Output: output.Table}
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Show how the Events about an object are merged and dropped, and why",
		Long: `Explain shows how the Events about an object are merged and dropped. For each
source of Events it prints:

  - the count of each stored Event, how much of it was merged, and how much is not
    written yet;
  - how many Events were dropped, and by which policy or quota;
  - the policies that govern its Events, and why;
  - how many tokens its buckets have, and when each gets its next one.

It lists the stored Events with your kubeconfig, so you need the right to list Events in
the namespace. It sends some of them to a replica, which answers from its policies and
its state. A replica without Redis knows only its own state. Explain changes nothing.

It finds a replica as top does, with the same rights. Users who may see only one
namespace need the rights that top --namespace needs. They also need the right to create
services/proxy of https:eventquota:metrics in --system-namespace, because explain sends
a question. They see no quota buckets that other namespaces use too.

It finds sources by their stored Events, so a source without any is not shown. The
state of merging and dropping is separate for each user, and an Event does not say who
wrote it. Explain tries the users of kubelets, schedulers and the controllers of
Kubernetes; --writer names others.`,
		Example: `  eventquota explain pod/web-0 -n storm
  kubectl eventquota explain node/node-1 -n default --context prod
  eventquota explain pod/web-0 --endpoint http://127.0.0.1:8080 -o json | jq .sources`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("explain: needs exactly one object as KIND/NAME, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), cmd.OutOrStdout(), args[0]) },
	}
	f := cmd.Flags()
	o.Replicas = replicas.AddFlags(f, true)
	o.Replicas.AddSystemFlag(f)
	output.RefuseEmpty(f, "endpoint")
	f.StringArrayVar(&o.Writers, "writer", nil, "user whose Events to show; may be repeated; defaults to the users of Kubernetes' own components")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", output.Formats(), "format of the report: table, wide for all Events rather than 30 of a source, json, yaml, or name for the names of Events")
	return cmd
}

// run prints the report on an object.
func (o *options) run(ctx context.Context, out io.Writer, arg string) error {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") || strings.ContainsAny(arg, " \t\n") {
		return fmt.Errorf("explain %q: must be KIND/NAME, as in pod/web-0", text.Sanitize(arg))
	}
	_, namespace, err := o.Replicas.Cluster.Config()
	if err != nil {
		return err
	}
	r, err := o.explain(ctx, namespace, kind, name)
	if err != nil {
		return err
	}
	if err := r.write(out, o.Output); err != nil {
		return fmt.Errorf("explain: write the report: %w", err)
	}
	return nil
}

// Object writes the report on an object as the table that the command prints. It asks the replica that o selects.
func Object(ctx context.Context, out io.Writer, o *replicas.Options, namespace, kind, name string) error {
	r, err := (&options{Replicas: o}).explain(ctx, namespace, kind, name)
	if err != nil {
		return err
	}
	return r.write(out, output.Table)
}

// Report writes the report on an object as the JSON that the command prints. It asks the replica that o selects.
func Report(ctx context.Context, out io.Writer, o *replicas.Options, namespace, kind, name string) error {
	r, err := (&options{Replicas: o}).explain(ctx, namespace, kind, name)
	if err != nil {
		return err
	}
	return r.write(out, output.JSON)
}

// explain makes the report on an object.
func (o *options) explain(ctx context.Context, namespace, kind, name string) (*report, error) {
	config, _, err := o.Replicas.Cluster.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	events, err := eventsAbout(ctx, client, namespace, kind, name)
	if err != nil {
		return nil, err
	}
	selected := *o.Replicas
	selected.Namespace = namespace
	replica, err := selected.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer replica.Close()
	r := &report{Namespace: namespace, Kind: events[0].InvolvedObject.Kind, Name: events[0].InvolvedObject.Name}
	return r, r.ask(ctx, replica, events, o.Writers)
}

// eventsAbout returns the stored Events about an object in a namespace, without notices. Without an error there is at least one.
// The kind is as for kubectl: in any case, singular or plural, with or without a group.
func eventsAbout(ctx context.Context, client kubernetes.Interface, namespace, kind, name string) ([]corev1.Event, error) {
	all, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String(), Limit: maxEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: list Events of namespace %s: %w", namespace, err)
	}
	want := schema.ParseGroupResource(strings.ToLower(kind))
	found := slices.DeleteFunc(all.Items, func(e corev1.Event) bool {
		plural, singular := meta.UnsafeGuessKindToResource(e.InvolvedObject.GroupVersionKind())
		return want.Resource != singular.Resource && want.Resource != plural.Resource ||
			want.Group != "" && want.Group != plural.Group || settler.IsNotice(&e)
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("explain: no Event in namespace %s is about %s/%s. Either none was written within --event-ttl of the API server, or all were "+
			"dropped. Events of reason EventsDropped, there and in default, name the latest objects", namespace, kind, name)
	}
	return found, nil
}
