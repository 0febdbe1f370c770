package elect

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// namespaceFile is where a pod finds its namespace.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	// DefaultNamespace is that of a process that is in no pod.
	DefaultNamespace = "eventquota-system"
)

// Options are the flags of the election.
type Options struct {
	Namespace     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// DefaultOptions are shorter than client-go's. Stored Events wait for their counts until a killed leader is followed; a
// lease that is lost because the API server was slow for some seconds costs next to nothing here.
func DefaultOptions() Options {
	return Options{
		LeaseDuration: 5 * time.Second,
		RenewDeadline: 3 * time.Second,
		RetryPeriod:   time.Second,
	}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Namespace, "leader-election-namespace", o.Namespace, "namespace of the Lease "+leaseName+", whose holder settles for all replicas of a shared store; empty for that of the pod, or else "+DefaultNamespace)
	f.DurationVar(&o.LeaseDuration, "leader-election-lease-duration", o.LeaseDuration, "how long after its last renewal the Lease of a leader that was killed is free to be taken; whole seconds, longer than the two below together")
	f.DurationVar(&o.RenewDeadline, "leader-election-renew-deadline", o.RenewDeadline, "how long a leader tries to renew the Lease before it stops to lead; more than 1.2 retry periods")
	f.DurationVar(&o.RetryPeriod, "leader-election-retry-period", o.RetryPeriod, "time between two renewals of the Lease, each a write to etcd, or between two attempts to take it; at least 100ms")
}

// Validate reports every flag that is out of its range.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	// A Lease has whole seconds.
	check(o.LeaseDuration == o.LeaseDuration.Truncate(time.Second),
		"--leader-election-lease-duration %s: must be whole seconds", o.LeaseDuration)
	// A retry period may pass before a leader begins to miss its renewals. It must
	// have stopped before another may lead.
	check(o.LeaseDuration > o.RenewDeadline+o.RetryPeriod,
		"--leader-election-lease-duration %s: must be longer than the renew deadline and the retry period together, which are %s",
		o.LeaseDuration, o.RenewDeadline+o.RetryPeriod)
	// client-go requires it.
	check(o.RenewDeadline > o.RetryPeriod*6/5,
		"--leader-election-renew-deadline %s: must be more than 1.2 retry periods, which are %s", o.RenewDeadline, o.RetryPeriod*6/5)
	check(o.RetryPeriod >= 100*time.Millisecond,
		"--leader-election-retry-period %s: must be at least 100ms", o.RetryPeriod)
	if wrong := validation.IsDNS1123Label(o.Namespace); o.Namespace != "" && len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--leader-election-namespace %q: %s", o.Namespace, wrong[0]))
	}
	return errors.Join(errs...)
}

// PodNamespace is where the Lease is, and all else that belongs to this pod.
func (o *Options) PodNamespace() string { return o.namespace(namespaceFile) }

func (o *Options) namespace(file string) string {
	if o.Namespace != "" {
		return o.Namespace
	}
	content, err := os.ReadFile(file)
	if name := strings.TrimSpace(string(content)); err == nil && name != "" {
		return name
	}
	return DefaultNamespace
}
