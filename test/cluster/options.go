package cluster

import (
	"io"
	"time"
)

// Options say what Start starts. The zero value is a control plane with the API
// server's own defaults and an audit log.
type Options struct {
	// Log receives progress, one line at a time. Nil discards it.
	Log io.Writer

	// EventTTL is how long etcd keeps an Event after its last write. 0 leaves the API
	// server's default of one hour. Whole seconds only; etcd may keep an Event up to
	// a minute longer, because it shares leases.
	EventTTL time.Duration

	// EventRateLimit is the YAML of an eventratelimit.admission.k8s.io/v1alpha1
	// Configuration. The API server's EventRateLimit plugin runs with it, or not at
	// all when it is empty.
	EventRateLimit string

	// Scheduler starts kube-scheduler too, as user system:kube-scheduler.
	Scheduler bool

	// Services makes the API server call a webhook's Service by its EndpointSlices, as
	// nothing routes the Service's own address here: each connection goes to a ready
	// endpoint at random.
	Services bool

	// NoAudit leaves the audit log out. Benchmarks want this: the API server writes
	// the log before it ends a request.
	NoAudit bool

	// APIServerFlags are further flags of kube-apiserver, name without dashes to
	// value. They replace what Start would set.
	APIServerFlags map[string]string
}

// programs are those that Start starts.
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
