package e2e

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twoTiers are policies of both tiers, which drop the Events of a reason each; but for what is to be replaced. Those of a
// namespace have nothing that the API server accepts and that is not valid.
const twoTiers = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: NAME}
spec: {tier: Admin, precedence: PRECEDENCE, action: Drop, match: {conditions: [{name: a, expression: "CLUSTER"}]}}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: NAME-baseline}
spec: {tier: Baseline, precedence: PRECEDENCE, action: Drop, match: {conditions: [{name: a, expression: "BASELINE"}]}}
---`

func policiesInBothTiers(name string, precedence int, cluster, own string) string {
	return strings.NewReplacer("NAME", name, "PRECEDENCE", fmt.Sprint(precedence), "CLUSTER", cluster, "BASELINE", own).Replace(twoTiers)
}

// reasonIs is a condition.
func reasonIs(reason string) string { return "event.reason == '" + reason + "'" }

// checkLastValidVersionIsKept writes policies that the API server accepts, as a schema
// knows nothing of CEL, and that are not valid.
func (e *env) checkLastValidVersionIsKept() {
	namespace := e.namespace("kept")
	e.kubectl(policiesInBothTiers("kept", 500, reasonIs("Cluster"), reasonIs("Own")), "apply", "-f", "-")
	e.eventuallyInForce("the first version", func() bool { return e.dropped(namespace, "Own") && e.dropped(namespace, "Cluster") })
	for i, test := range []struct{ says, expression string }{
		{"does not parse", "event.reason =="},
		{"is not of type bool", "event.reason"},
		{"reads what is not there", "object.reason == 'Own'"},
	} {
		// Policies of a kind come in their order: when the last governs, the others
		// are known. The last of the others would drop all, if it governed.
		mark := fmt.Sprint("Mark", i)
		e.kubectl(policiesInBothTiers("kept", 500, test.expression, test.expression)+
			policiesInBothTiers("new", 1, test.expression, test.expression)+
			policiesInBothTiers(strings.ToLower(mark), 500, reasonIs("Cluster"+mark), reasonIs("Own"+mark)), "apply", "-f", "-")
		e.eventuallyInForce("what comes after it", func() bool { return e.dropped(namespace, "Own"+mark) && e.dropped(namespace, "Cluster"+mark) })
		if !e.dropped(namespace, "Own") || !e.dropped(namespace, "Cluster") {
			e.Errorf("an expression that %s: the version before no longer governs", test.says)
		}
		if e.dropped(namespace, "Other") {
			e.Errorf("an expression that %s: the policy governs", test.says)
		}
	}
	e.kubectl(policiesInBothTiers("kept", 500, reasonIs("None"), reasonIs("None")), "apply", "-f", "-")
	e.eventuallyInForce("the next valid version", func() bool { return !e.dropped(namespace, "Own") && !e.dropped(namespace, "Cluster") })
}

// eventuallyInForce holds that something comes true as soon as a policy must govern. kubectl has
// just ended.
func (e *env) eventuallyInForce(what string, holds func() bool) {
	e.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > inForceWithin {
			e.Fatalf("%s is not in force after %s", what, inForceWithin)
		}
	}
	e.Logf("%s: in force %s after kubectl", what, time.Since(began).Round(time.Millisecond))
}

// dropped reports whether a policy drops an Event of a reason, which is about
// something new.
func (e *env) dropped(namespace, reason string) bool {
	e.Helper()
	object := fmt.Sprint("web-", time.Now().UnixNano())
	event := coreEvent(namespace, object, object, "told once")
	event.Reason = reason
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
	if err != nil && !strings.HasSuffix(err.Error(), "drops it") {
		e.Fatal(err)
	}
	return err != nil
}
