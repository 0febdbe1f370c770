package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	notChecked = "not checked: " // begins a line about what could not be read, mostly for want of a right
	noLevel    = "warning: no priority level for Event writes"
	unknown    = notChecked + "the priority levels of Event writes: "
)

// report is what check says of the priority levels of Event writes.
type report struct {
	lane     *lane
	accounts accounts
	found    map[class]classification // of the classes that check could ask as
	lines    []string
}

// checkLane says in lines which priority levels one API server has for Event writes in a namespace. What it cannot find
// out is a line too.
func checkLane(ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace string) []string {
	lane, err := readLane(ctx, client.FlowcontrolV1())
	switch {
	case apierrors.IsNotFound(err):
		return []string{noLevel + ": the API server does not serve flowcontrol.apiserver.k8s.io/v1"}
	case apierrors.IsForbidden(err):
		return []string{unknown + "grant list on flowschemas and prioritylevelconfigurations in flowcontrol.apiserver.k8s.io"}
	case err != nil:
		return []string{unknown + err.Error()}
	}
	r := &report{lane: lane, accounts: newAccounts(lane.schemas, namespace), found: map[class]classification{}}
	r.say("Event writes at the API server that was asked (others may have other limits or FlowSchemas):")
	var seatsErr error
	lane.seats, seatsErr = readSeats(ctx, client.Discovery().RESTClient())
	if err := r.ask(ctx, config, namespace); err != nil {
		return []string{noLevel + ": the API server classifies no request: priority and fairness is off, or a proxy removes its headers"}
	}
	if apierrors.IsForbidden(seatsErr) {
		r.say(notChecked + "seats: grant get on the non-resource URL /metrics")
	} else if seatsErr != nil {
		r.say(notChecked+"seats: %v", seatsErr)
	}
	r.warnOfMissing()
	r.warnOfDangling()
	r.warnOfOthersBefore()
	r.warnOfUnused()
	return r.lines
}

func (r *report) say(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// ask says how Event writes of each class are classified. It fails if the API server classifies none.
func (r *report) ask(ctx context.Context, config *rest.Config, namespace string) error {
	var refused []string
	for _, c := range classes() {
		as := rest.CopyConfig(config)
		as.Impersonate = r.accounts.impersonation(c)
		found, err := ask(ctx, as, namespace)
		switch {
		case errors.Is(err, errUnclassified):
			return err
		case errors.Is(err, errMayNotImpersonate):
			refused = append(refused, r.accounts.right(c))
		case err != nil:
			r.say(notChecked+"%s: %v", c, err)
		default:
			r.found[c] = found
			r.say("  %s: %s", c, r.lane.describe(found))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	own, err := ask(ctx, config, namespace)
	switch {
	case errors.Is(err, errUnclassified):
		return err
	case err != nil:
		r.say(notChecked+"this account: %v", err)
	default:
		r.say("  this account: %s", r.lane.describe(own))
	}
	r.say(notChecked+"other accounts: grant impersonate on %s", strings.Join(refused, ", "))
	return nil
}

// warnOfMissing names the FlowSchemas of eventquota that are not there.
func (r *report) warnOfMissing() {
	var members, schemas []string
	for _, c := range classes() {
		if r.lane.position(c.schema()) < 0 {
			members, schemas = append(members, c.members()), append(schemas, c.schema())
		}
	}
	if len(schemas) > 0 {
		r.say(noLevel+" of %s: there is no FlowSchema %s", strings.Join(members, ", "), strings.Join(schemas, ", "))
	}
}

// warnOfDangling names the FlowSchemas for Event writes that the API server ignores.
func (r *report) warnOfDangling() {
	for _, schema := range r.lane.schemas {
		if dangling(&schema) && len(r.accounts.takes(&schema)) > 0 {
			r.say("warning: FlowSchema %s has no effect: there is no priority level %s",
				schema.Name, schema.Spec.PriorityLevelConfiguration.Name)
		}
	}
}

// warnOfOthersBefore names the FlowSchemas that take Event writes before those of eventquota do, whether or not check asked
// as an account that they match.
func (r *report) warnOfOthersBefore() {
	for i, schema := range r.lane.schemas {
		var members, ours []string
		for _, c := range r.accounts.takes(&schema) {
			if own := r.lane.position(c.schema()); own > i {
				members, ours = append(members, c.members()), append(ours, c.schema())
			}
		}
		if len(ours) > 0 && !dangling(&schema) {
			r.say("warning: FlowSchema %s (precedence %d, priority level %s) takes Event writes of %s before %s",
				schema.Name, schema.Spec.MatchingPrecedence, schema.Spec.PriorityLevelConfiguration.Name,
				strings.Join(members, ", "), strings.Join(ours, ", "))
		}
	}
}

// warnOfUnused names the FlowSchemas of eventquota that do not match, though none before them does.
func (r *report) warnOfUnused() {
	for _, c := range classes() {
		found, asked := r.found[c]
		own := r.lane.position(c.schema())
		if !asked || own < 0 || found.schema == r.lane.schemas[own].UID || dangling(&r.lane.schemas[own]) {
			continue
		}
		before := slices.ContainsFunc(r.lane.schemas[:own], func(s flowcontrolv1.FlowSchema) bool { return s.UID == found.schema })
		if !before {
			r.say("warning: FlowSchema %s does not match Event writes of %s: its rules were changed, or the API server has not read it yet",
				c.schema(), c.members())
		}
	}
}
