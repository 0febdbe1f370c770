// Package apiserver is how commands reach the API server.
package apiserver

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/admission/text"
)

// timeout is the default of --request-timeout.
const timeout = "15s"

// Config says how to reach the API server, without a client-side rate limit: by a kubeconfig file, or by the
// service account of the pod where there is none.
func Config(kubeconfig string) (config *rest.Config, err error) {
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	} else if config, err = rest.InClusterConfig(); err != nil {
		err = fmt.Errorf("must be set outside of a pod: %w", err)
	}
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Flags are kubectl's flags that say which cluster to ask, as whom and in which namespace. Without any they stand for
// the current context of the user's kubeconfig, or for the service account of the pod where there is none.
type Flags struct {
	loading   *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	loaded    clientcmd.ClientConfig // reads the files once, when it is first asked
}

// AddFlags adds Flags to f, with --namespace if they are for a command that looks into one.
func AddFlags(f *pflag.FlagSet, namespaced bool) *Flags {
	o := &Flags{loading: clientcmd.NewDefaultClientConfigLoadingRules()}
	o.loaded = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.loading, &o.overrides)
	f.StringVar(&o.loading.ExplicitPath, "kubeconfig", "", "kubeconfig file; empty for $KUBECONFIG, ~/.kube/config or the service account of the pod")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	// API servers do not take passwords any more.
	flags.AuthOverrideFlags.Username, flags.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	flags.Timeout.Default = timeout
	if !namespaced {
		flags.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	}
	clientcmd.BindOverrideFlags(&o.overrides, f, flags)
	return o
}

// Config says how to reach the API server, without a client-side rate limit, and in which namespace to look.
func (o *Flags) Config() (config *rest.Config, namespace string, err error) {
	config, err = o.loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("--kubeconfig: there is none at %s", strings.Join(o.loading.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("--kubeconfig: %w", text.OneLine(err))
	}
	if namespace, _, err = o.loaded.Namespace(); err != nil {
		return nil, "", fmt.Errorf("--namespace: %w", text.OneLine(err))
	}
	config.QPS = -1
	return config, namespace, nil
}
