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
	notChecked     = "not checked: " // begins a line about something that could not be read, mostly because a right is missing
	noLevelWarning = "warning: no priority level for Event writes"
	unknownLevels  = notChecked + "the priority levels of Event writes: "
)

// report collects the lines about the priority levels of Event writes.
type report struct {
	flowControl *flowControl
	accounts    accounts
	classified  map[accountClass]classification // of the classes that check could impersonate
	lines       []string
}

// checkFlowControl returns lines about the priority levels of Event writes in a namespace, at one API server. Errors become lines too.
func checkFlowControl(ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace string) []string {
	control, err := readFlowControl(ctx, client.FlowcontrolV1())
	switch {
	case apierrors.IsNotFound(err):
		return []string{noLevelWarning + ": the API server does not serve flowcontrol.apiserver.k8s.io/v1"}
	case apierrors.IsForbidden(err):
		return []string{unknownLevels + "grant list on flowschemas and prioritylevelconfigurations in flowcontrol.apiserver.k8s.io"}
	case err != nil:
		return []string{unknownLevels + err.Error()}
	}
	r := &report{flowControl: control, accounts: newAccounts(control.schemas, namespace), classified: map[accountClass]classification{}}
	r.addLine("Event writes at one API server (others may have other limits or FlowSchemas):")
	var seatsErr error
	control.seats, seatsErr = readSeats(ctx, client.Discovery().RESTClient())
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

// classifyAll adds a line for the classification of each class. It returns errUnclassified if the API server classifies nothing.
func (r *report) classifyAll(ctx context.Context, config *rest.Config, namespace string) error {
	var refused []string
	for _, c := range classes() {
		impersonating := rest.CopyConfig(config)
		impersonating.Impersonate = r.accounts.impersonation(c)
		found, err := classify(ctx, impersonating, namespace)
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

// warnMissing warns about FlowSchemas of eventquota that do not exist.
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

// warnDangling warns about FlowSchemas for Event writes that the API server ignores.
func (r *report) warnDangling() {
	for _, schema := range r.flowControl.schemas {
		if dangling(&schema) && len(r.accounts.matchedClasses(&schema)) > 0 {
			r.addLine("warning: FlowSchema %s has no effect: there is no priority level %s",
				schema.Name, schema.Spec.PriorityLevelConfiguration.Name)
		}
	}
}

// warnPreceding warns about FlowSchemas that match Event writes before those of eventquota do. It includes those that match no account
// that check impersonates.
func (r *report) warnPreceding() {
	for i, schema := range r.flowControl.schemas {
		var members, ours []string
		for _, c := range r.accounts.matchedClasses(&schema) {
			if own := r.flowControl.position(c.schema()); own > i {
				members, ours = append(members, c.members()), append(ours, c.schema())
			}
		}
		if len(ours) > 0 && !dangling(&schema) {
			r.addLine("warning: FlowSchema %s (precedence %d, priority level %s) matches Event writes of %s before %s",
				schema.Name, schema.Spec.MatchingPrecedence, schema.Spec.PriorityLevelConfiguration.Name,
				strings.Join(members, ", "), strings.Join(ours, ", "))
		}
	}
}

// warnUnused warns about FlowSchemas of eventquota that do not match, although none before them does.
func (r *report) warnUnused() {
	for _, c := range classes() {
		found, ok := r.classified[c]
		own := r.flowControl.position(c.schema())
		if !ok || own < 0 || found.schema == r.flowControl.schemas[own].UID || dangling(&r.flowControl.schemas[own]) {
			continue
		}
		preceded := slices.ContainsFunc(r.flowControl.schemas[:own], func(s flowcontrolv1.FlowSchema) bool { return s.UID == found.schema })
		if !preceded {
			r.addLine("warning: FlowSchema %s does not match Event writes of %s: its rules were changed, or the API server has not read it yet",
				c.schema(), c.members())
		}
	}
}
