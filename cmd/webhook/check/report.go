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
	notChecked     = "not checked: " // begins a line about what could not be read, mostly for want of a right
	noLevelWarning = "warning: no priority level for Event writes"
	unknownLevels  = notChecked + "the priority levels of Event writes: "
)

// report is what check says of the priority levels of Event writes.
type report struct {
	flowControl *flowControl
	accounts    accounts
	classified  map[accountClass]classification // of the classes that check could ask as
	lines       []string
}

// checkFlowControl says in lines which priority levels one API server has for Event writes in a namespace. What it cannot find
// out is a line too.
func checkFlowControl(ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace string) []string {
	lane, err := readFlowControl(ctx, client.FlowcontrolV1())
	switch {
	case apierrors.IsNotFound(err):
		return []string{noLevelWarning + ": the API server does not serve flowcontrol.apiserver.k8s.io/v1"}
	case apierrors.IsForbidden(err):
		return []string{unknownLevels + "grant list on flowschemas and prioritylevelconfigurations in flowcontrol.apiserver.k8s.io"}
	case err != nil:
		return []string{unknownLevels + err.Error()}
	}
	r := &report{flowControl: lane, accounts: newAccounts(lane.schemas, namespace), classified: map[accountClass]classification{}}
	r.addLine("Event writes at the API server that was asked (others may have other limits or FlowSchemas):")
	var seatsErr error
	lane.seats, seatsErr = readSeats(ctx, client.Discovery().RESTClient())
	if err := r.classifyAll(ctx, config, namespace); err != nil {
		return []string{noLevelWarning + ": the API server classifies no request: priority and fairness is off, or a proxy removes its headers"}
	}
	if apierrors.IsForbidden(seatsErr) {
		r.addLine(notChecked + "seats: grant get on the non-resource URL /metrics")
	} else if seatsErr != nil {
		r.addLine(notChecked+"seats: %v", seatsErr)
	}
	r.warnMissing()
	r.warnDangling()
	r.warnPreceding()
	r.warnUnused()
	return r.lines
}

func (r *report) addLine(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// classifyAll says how Event writes of each class are classified. It fails if the API server classifies none.
func (r *report) classifyAll(ctx context.Context, config *rest.Config, namespace string) error {
	var refused []string
	for _, c := range classes() {
		as := rest.CopyConfig(config)
		as.Impersonate = r.accounts.impersonation(c)
		found, err := classify(ctx, as, namespace)
		switch {
		case errors.Is(err, errUnclassified):
			return err
		case errors.Is(err, errMayNotImpersonate):
			refused = append(refused, r.accounts.requiredRight(c))
		case err != nil:
			r.addLine(notChecked+"%s: %v", c, err)
		default:
			r.classified[c] = found
			r.addLine("  %s: %s", c, r.flowControl.describe(found))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	own, err := classify(ctx, config, namespace)
	switch {
	case errors.Is(err, errUnclassified):
		return err
	case err != nil:
		r.addLine(notChecked+"this account: %v", err)
	default:
		r.addLine("  this account: %s", r.flowControl.describe(own))
	}
	r.addLine(notChecked+"other accounts: grant impersonate on %s", strings.Join(refused, ", "))
	return nil
}

// warnMissing names the FlowSchemas of eventquota that are not there.
func (r *report) warnMissing() {
	var members, schemas []string
	for _, c := range classes() {
		if r.flowControl.position(c.schema()) < 0 {
			members, schemas = append(members, c.members()), append(schemas, c.schema())
		}
	}
	if len(schemas) > 0 {
		r.addLine(noLevelWarning+" of %s: there is no FlowSchema %s", strings.Join(members, ", "), strings.Join(schemas, ", "))
	}
}

// warnDangling names the FlowSchemas for Event writes that the API server ignores.
func (r *report) warnDangling() {
	for _, schema := range r.flowControl.schemas {
		if dangling(&schema) && len(r.accounts.matchedClasses(&schema)) > 0 {
			r.addLine("warning: FlowSchema %s has no effect: there is no priority level %s",
				schema.Name, schema.Spec.PriorityLevelConfiguration.Name)
		}
	}
}

// warnPreceding names the FlowSchemas that take Event writes before those of eventquota do, whether or not check asked
// as an account that they match.
func (r *report) warnPreceding() {
	for i, schema := range r.flowControl.schemas {
		var members, ours []string
		for _, c := range r.accounts.matchedClasses(&schema) {
			if own := r.flowControl.position(c.schema()); own > i {
				members, ours = append(members, c.members()), append(ours, c.schema())
			}
		}
		if len(ours) > 0 && !dangling(&schema) {
			r.addLine("warning: FlowSchema %s (precedence %d, priority level %s) takes Event writes of %s before %s",
				schema.Name, schema.Spec.MatchingPrecedence, schema.Spec.PriorityLevelConfiguration.Name,
				strings.Join(members, ", "), strings.Join(ours, ", "))
		}
	}
}

// warnUnused names the FlowSchemas of eventquota that do not match, though none before them does.
func (r *report) warnUnused() {
	for _, c := range classes() {
		found, asked := r.classified[c]
		own := r.flowControl.position(c.schema())
		if !asked || own < 0 || found.schema == r.flowControl.schemas[own].UID || dangling(&r.flowControl.schemas[own]) {
			continue
		}
		before := slices.ContainsFunc(r.flowControl.schemas[:own], func(s flowcontrolv1.FlowSchema) bool { return s.UID == found.schema })
		if !before {
			r.addLine("warning: FlowSchema %s does not match Event writes of %s: its rules were changed, or the API server has not read it yet",
				c.schema(), c.members())
		}
	}
}
