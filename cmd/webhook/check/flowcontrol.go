package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedflowcontrolv1 "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
)

// flowControl has the configuration of API priority and fairness.
type flowControl struct {
	schemas []flowcontrolv1.FlowSchema // in the order of matching
	levels  []flowcontrolv1.PriorityLevelConfiguration
	seats   map[string]int64 // by the name of a level, at one API server; nil if they could not be read
}

// readFlowControl reads the FlowSchemas and priority levels.
func readFlowControl(ctx context.Context, client typedflowcontrolv1.FlowcontrolV1Interface) (*flowControl, error) {
	schemas, err := client.FlowSchemas().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list flowschemas: %w", err)
	}
	levels, err := client.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list prioritylevelconfigurations: %w", err)
	}
	slices.SortFunc(schemas.Items, func(a, b flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
	return &flowControl{schemas: schemas.Items, levels: levels.Items}, nil
}

// position returns the index of a FlowSchema in the order of matching, or -1 if it does not exist.
func (f *flowControl) position(name string) int {
	return slices.IndexFunc(f.schemas, func(s flowcontrolv1.FlowSchema) bool { return s.Name == name })
}

// describe formats a classification.
func (f *flowControl) describe(c classification) string {
	schema := slices.IndexFunc(f.schemas, func(s flowcontrolv1.FlowSchema) bool { return s.UID == c.schema })
	level := slices.IndexFunc(f.levels, func(p flowcontrolv1.PriorityLevelConfiguration) bool { return p.UID == c.priorityLevel })
	if schema < 0 || level < 0 {
		return "a FlowSchema or priority level that was just created or deleted"
	}
	return fmt.Sprintf("FlowSchema %s (precedence %d), priority level %s (%s)",
		f.schemas[schema].Name, f.schemas[schema].Spec.MatchingPrecedence, f.levels[level].Name, f.size(&f.levels[level]))
}

// size formats the seats of a level, or its shares if the seats are not known.
func (f *flowControl) size(level *flowcontrolv1.PriorityLevelConfiguration) string {
	if level.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt {
		return "exempt"
	}
	if seats, known := f.seats[level.Name]; known {
		return fmt.Sprintf("%d seats", seats)
	}
	if limited := level.Spec.Limited; limited != nil && limited.NominalConcurrencyShares != nil {
		return fmt.Sprintf("%d shares", *limited.NominalConcurrencyShares)
	}
	return "seats not known"
}

// dangling reports whether the API server ignores a FlowSchema because its level does not exist.
func dangling(schema *flowcontrolv1.FlowSchema) bool {
	return slices.ContainsFunc(schema.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool {
		return c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == flowcontrolv1.ConditionTrue
	})
}
