package e2e

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twoTiers is a template of two policies, one in each tier. Each drops the Events of one reason. The words in
// capitals are replaced.
const twoTiers = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: NAME}
spec: {tier: Admin, precedence: PRECEDENCE, action: Drop, match: {conditions: [{name: a, expression: "ADMIN"}]}}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: NAME-baseline}
spec: {tier: Baseline, precedence: PRECEDENCE, action: Drop, match: {conditions: [{name: a, expression: "BASELINE"}]}}
---`

func policiesInBothTiers(name string, precedence int, admin, baseline string) string {
	return strings.NewReplacer("NAME", name, "PRECEDENCE", fmt.Sprint(precedence), "ADMIN", admin, "BASELINE", baseline).Replace(twoTiers)
}

// reasonIs returns a condition for a reason.
func reasonIs(reason string) string { return "event.reason == '" + reason + "'" }

// checkLastValidVersionIsKept writes invalid policies that the API server accepts, because a schema does not check
// CEL. The last valid version must stay in force.
func (e *env) checkLastValidVersionIsKept() {
	namespace := e.namespace("kept")
	e.kubectl(policiesInBothTiers("kept", 500, reasonIs("Admin"), reasonIs("Baseline")), "apply", "-f", "-")
	e.eventuallyInForce("the first version", func() bool { return e.dropped(namespace, "Baseline") && e.dropped(namespace, "Admin") })
	for i, test := range []struct{ description, expression string }{
		{"does not parse", "event.reason =="},
		{"is not of type bool", "event.reason"},
		{"reads an unknown variable", "object.reason == 'Baseline'"},
	} {
		// Policies of a kind are applied in order. Once the last one is in force, the webhook knows the others. One
		// of them would drop every Event if it were in force.
		mark := fmt.Sprint("Mark", i)
		e.kubectl(policiesInBothTiers("kept", 500, test.expression, test.expression)+
			policiesInBothTiers("new", 1, test.expression, test.expression)+
			policiesInBothTiers(strings.ToLower(mark), 500, reasonIs("Admin"+mark), reasonIs("Baseline"+mark)), "apply", "-f", "-")
		e.eventuallyInForce("the policy applied after it", func() bool { return e.dropped(namespace, "Baseline"+mark) && e.dropped(namespace, "Admin"+mark) })
		if !e.dropped(namespace, "Baseline") || !e.dropped(namespace, "Admin") {
			e.Errorf("an expression that %s: the last valid version is no longer in force", test.description)
		}
		if e.dropped(namespace, "Other") {
			e.Errorf("an expression that %s: the new policy is in force", test.description)
		}
	}
	e.kubectl(policiesInBothTiers("kept", 500, reasonIs("None"), reasonIs("None")), "apply", "-f", "-")
	e.eventuallyInForce("the next valid version", func() bool { return !e.dropped(namespace, "Baseline") && !e.dropped(namespace, "Admin") })
}

// eventuallyInForce waits until a check returns true. It fails the test if that takes longer than inForceWithin after
// kubectl, which has just ended.
func (e *env) eventuallyInForce(what string, check func() bool) {
	e.Helper()
	began := time.Now()
	for !check() {
		if time.Since(began) > inForceWithin {
			e.Fatalf("%s is not in force after %s", what, inForceWithin)
		}
	}
	e.Logf("%s: in force %s after kubectl", what, time.Since(began).Round(time.Millisecond))
}

// dropped reports whether a policy drops an Event of a reason about a new object.
func (e *env) dropped(namespace, reason string) bool {
	e.Helper()
	object := fmt.Sprint("web-", time.Now().UnixNano())
	event := coreEvent(namespace, object, object, "reported once")
	event.Reason = reason
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
	if err != nil && !strings.HasSuffix(err.Error(), "drops it") {
		e.Fatal(err)
	}
	return err != nil
}
