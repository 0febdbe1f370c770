package replicas

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
)

// Options are the flags that say where to ask: the cluster of a kubeconfig, or one replica. Make them with
// NewOptions.
type Options struct {
	Endpoint Endpoint
	Cluster  *apiserver.Flags
}

// NewOptions stand for the user's own cluster.
func NewOptions() Options { return Options{Cluster: apiserver.NewFlags()} }

// AddFlags adds them to f, with --namespace if they are for a command that looks into one.
func (o *Options) AddFlags(f *pflag.FlagSet, namespaced bool) {
	o.Cluster.AddFlags(f, namespaced)
	o.Endpoint.addFlags(f)
}

// Validate reports every flag that is missing, wrong or contradicts another. It opens no file and connects nowhere.
func (o *Options) Validate() error {
	if !o.Endpoint.IsSet() {
		return nil
	}
	return o.Endpoint.validate()
}

// Open finds a replica to ask. The flags are valid.
func (o *Options) Open(ctx context.Context, userAgent string) (*Replica, error) {
	if o.Endpoint.IsSet() {
		return o.Endpoint.open()
	}
	config, _, err := o.Cluster.Config(userAgent)
	if err != nil {
		return nil, err
	}
	return find(ctx, config)
}
