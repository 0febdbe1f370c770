package cluster

import (
	"io"
	"time"
)

// Options configures Start. The zero value is a control plane with the API server's own defaults and an audit log.
type Options struct {
	// Log receives progress, one line at a time. Nil discards it.
	Log io.Writer

	// EventTTL is how long etcd keeps an Event after its last write. 0 means the API server's default of one hour. It
	// must be whole seconds. etcd may keep an Event up to a minute longer, because Events share leases.
	EventTTL time.Duration

	// EventRateLimit is the YAML of an eventratelimit.admission.k8s.io/v1alpha1 Configuration for the API server's
	// EventRateLimit plugin. If it is empty, the plugin is off.
	EventRateLimit string

	// Scheduler also starts kube-scheduler, as user system:kube-scheduler.
	Scheduler bool

	// Services makes the API server call the webhook's Service through its EndpointSlices, because no kube-proxy
	// runs. Each connection goes to a random ready endpoint.
	Services bool

	// NoAudit turns the audit log off. Benchmarks use it, because the API server writes the log before it answers a
	// request.
	NoAudit bool

	// APIServerFlags are further flags of kube-apiserver: names without dashes, and values. They replace flags that
	// Start sets.
	APIServerFlags map[string]string

	// EtcdFlags are further flags of etcd: names without dashes, and values.
	EtcdFlags map[string]string
}

// programs returns the programs to start.
func (o Options) programs() []string {
	programs := []string{"etcd", "kube-apiserver"}
	if o.Scheduler {
		programs = append(programs, "kube-scheduler")
	}
	return programs
}

func (o Options) log() io.Writer {
	if o.Log == nil {
		return io.Discard
	}
	return o.Log
}
