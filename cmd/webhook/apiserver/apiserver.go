// Package apiserver configures the connection of commands to the API server.
package apiserver

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/admission/text"
)

// timeout is the default of --request-timeout.
const timeout = "15s"

// Config loads a kubeconfig file or, if kubeconfig is empty, the service account of the pod. The result has no client-side rate limit.
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

// Flags are the flags of kubectl that select the cluster, the user and the namespace. The default is the current context of the user's
// kubeconfig or, without a kubeconfig, the service account of the pod.
type Flags struct {
	loading   *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	loaded    clientcmd.ClientConfig // reads the files when it is first used
}

// AddFlags adds the flags to f, with --namespace if namespaced.
func AddFlags(f *pflag.FlagSet, namespaced bool) *Flags {
	o := &Flags{loading: clientcmd.NewDefaultClientConfigLoadingRules()}
	o.loaded = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.loading, &o.overrides)
	f.StringVar(&o.loading.ExplicitPath, "kubeconfig", "", "kubeconfig file; empty for $KUBECONFIG, ~/.kube/config or the service account of the pod")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	// API servers no longer support passwords.
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.Timeout.Default = timeout
	if !namespaced {
		names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	}
	clientcmd.BindOverrideFlags(&o.overrides, f, names)
	return o
}

// ExplicitNamespace returns the value of the flag --namespace of a command that is about all namespaces without it, or nothing if the flag
// was not set.
func ExplicitNamespace(flag *pflag.Flag) (string, error) {
	name := flag.Value.String()
	if wrong := validation.IsDNS1123Label(name); name != "" && len(wrong) > 0 {
		return "", fmt.Errorf("--namespace %q: %s", name, strings.Join(wrong, "; "))
	}
	return name, nil
}

// Config returns the selected client configuration, without a client-side rate limit, and the selected namespace.
func (f *Flags) Config() (config *rest.Config, namespace string, err error) {
	config, err = f.loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("--kubeconfig: no kubeconfig at %s", strings.Join(f.loading.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("--kubeconfig: %w", text.OneLine(err))
	}
	if namespace, _, err = f.loaded.Namespace(); err != nil {
		return nil, "", fmt.Errorf("--namespace: %w", text.OneLine(err))
	}
	config.QPS = -1
	return config, namespace, nil
}
