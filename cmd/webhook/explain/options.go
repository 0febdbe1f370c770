package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// explainTimeout bounds each question to the API server.
const explainTimeout = 15 * time.Second

// options are the flags of explain.
type options struct {
	Namespace    string
	Kubeconfig   string
	Replicas     replicas.Options
	Writers      []string
	WriterGroups []string
	Output       string
}

func defaultOptions() *options {
	return &options{Replicas: replicas.DefaultOptions(), Output: "table"}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "namespace of the Events; empty for that of the kubeconfig's context. Events about an object of the cluster are in default, or where their source puts them")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file to read Events and policies with; empty for $KUBECONFIG, ~/.kube/config or the service account of the pod")
	o.Replicas.AddFlags(f)
	f.StringArrayVar(&o.Writers, "writer", o.Writers, "user whose Events to look at; may be given several times; none for those that parts of Kubernetes are, by the source of an Event")
	f.StringSliceVar(&o.WriterGroups, "writer-groups", o.WriterGroups, "groups of each --writer; empty for those that the API server puts such a user into")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format of the report, table or json")
}

func (o *options) validate() error {
	errs := []error{o.Replicas.Validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains([]string{"table", "json"}, o.Output), "--output %q: must be table or json", o.Output)
	check(len(o.WriterGroups) == 0 || len(o.Writers) > 0, "--writer-groups: needs --writer")
	return errors.Join(errs...)
}

// cluster says how to reach the API server, and in which namespace to look.
func (o *options) cluster() (*rest.Config, string, error) {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = o.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &clientcmd.ConfigOverrides{})
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("--kubeconfig: there is none at %s", strings.Join(loading.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("--kubeconfig: %w", text.OneLine(err))
	}
	config.QPS, config.Timeout = -1, explainTimeout
	config = rest.AddUserAgent(config, "eventquota-explain")
	if o.Namespace != "" {
		return config, o.Namespace, nil
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("--namespace: %w", text.OneLine(err))
	}
	return config, namespace, nil
}
