package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
	"github.com/eventquota/eventquota/store/memory"
)

// options are the flags of simulate.
type options struct {
	Policies    []string
	Kubeconfig  string
	Compare     []string
	Output      string
	Decisions   string
	FailOn      []string
	ExemptUsers []string
	StoreMemory resource.QuantityValue
	EventTTL    time.Duration
}

func defaultOptions() *options {
	return &options{
		Output:      "table",
		ExemptUsers: []string{"system:serviceaccount:eventquota-system:eventquota"},
		StoreMemory: resource.QuantityValue{Quantity: *resource.NewQuantity(memory.DefaultBytes, resource.BinarySI)},
		EventTTL:    time.Hour,
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Policies, "policies", o.Policies, "files, or directories of .yaml, .yml and .json files, with EventPolicies and ClusterEventPolicies, and with the Namespaces that they select by label; none for the built-in default")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of a cluster whose policies and namespaces are taken instead")
	f.StringSliceVar(&o.Compare, "compare", o.Compare, "a second set of policies, like --policies, whose figures are shown beside; or default for the built-in default")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format of the report: table, json, or html for a page that needs nothing else")
	f.StringVar(&o.Decisions, "decisions", o.Decisions, "file to write each decision to, as a line of JSON; not those of --compare")
	f.StringSliceVar(&o.FailOn, "fail-on", o.FailOn, "what makes the exit code 2, if it comes about at least once: "+strings.Join(failureNames(), ", ")+"; not by --compare")
	f.StringSliceVar(&o.ExemptUsers, "exempt-users", o.ExemptUsers, "users whose requests the webhook is not asked about, in an audit log")
	f.Var(&o.StoreMemory, "store-memory", "memory that the simulated store may use, in bytes, at least 1Mi, as --store-memory of serve")
	f.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "how long the API server keeps an Event after its last write, at least 1s")
}

func (o *options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(o.Policies) == 0 || o.Kubeconfig == "", "--kubeconfig: must not be set with --policies")
	check(slices.Contains(formats(), o.Output), "--output %q: must be table, json or html", o.Output)
	check(o.StoreMemory.Value() >= memory.MinBytes, "--store-memory %s: must be at least 1Mi", &o.StoreMemory)
	check(o.EventTTL >= time.Second, "--event-ttl %s: must be at least 1s", o.EventTTL)
	for _, name := range o.FailOn {
		check(slices.Contains(failureNames(), name), "--fail-on %q: must be of %s", name, strings.Join(failureNames(), ", "))
	}
	return errors.Join(errs...)
}

// formats are what --output takes.
func formats() []string { return []string{"table", "json", "html"} }

// failureNames are what --fail-on takes.
func failureNames() []string {
	return []string{"warning-dropped", "dropped", "undecided", "broken-line"}
}

// failure says which of --fail-on have come about, or nil.
func (o *options) failure(of *report.Report) error {
	r := of.Runs[0].Result
	seen := map[string]int64{
		"warning-dropped": r.WarningsDropped,
		"dropped":         r.Outcomes[admission.Dropped],
		"undecided":       r.Outcomes[admission.Undecided] + r.Outcomes[admission.Overloaded] + r.Outcomes[simulate.Unknown],
		"broken-line":     of.Input.Broken,
	}
	var found []string
	for _, name := range o.FailOn {
		if seen[name] > 0 {
			found = append(found, fmt.Sprintf("%s: %d", name, seen[name]))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return foundError{"simulate: --fail-on " + strings.Join(found, ", ")}
}

// foundError is the end of a command that found what it was told to look for.
type foundError struct{ message string }

func (e foundError) Error() string { return e.message }

// ExitCode tells it from a failure.
func (foundError) ExitCode() int { return 2 }
