package e2e

import (
	"strings"
	"testing"
)

// kubectl runs kubectl as the administrator and returns its stdout.
func (e *env) kubectl(stdin string, args ...string) string {
	e.Helper()
	stdout, _, err := e.cluster.Kubectl(e.Context(), stdin, args...)
	e.must(err)
	return stdout
}

// TestKubectlAppliesCRDsAndRefusesBadPolicies applies the CRDs, valid policies and common mistakes with kubectl.
// Package v1alpha1 tests the schemas in detail. No webhook runs, so the API server alone refuses.
func TestKubectlAppliesCRDsAndRefusesBadPolicies(t *testing.T) {
	t.Parallel()
	e := &env{T: t, cluster: planes.ForTest(t)}
	e.kubectl("", "apply", "-f", crdDir)
	e.kubectl("", "wait", "--for=condition=Established", "--timeout=30s", "-f", crdDir)
	if again := e.kubectl("", "apply", "-f", crdDir); strings.Count(again, " unchanged\n") != 4 {
		t.Errorf("kubectl apply of the same CRDs again: %q, want all unchanged", again)
	}
	const policy = "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: good}\nspec:\n"
	const quota = "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: good}\nspec:\n"
	e.kubectl(policy+" action: Exempt", "apply", "-f", "-")
	e.kubectl(quota+" limits: [{name: all, burst: 5, tokens: 1}]", "apply", "-f", "-")

	e.checkBadPolicies(policy, quota)
	for _, get := range []string{category, "cevp,evp,cevq,evq"} { // and the short names
		out := e.kubectl("", "get", get, "-o", "name")
		if want := "clustereventpolicy.eventquota.io/good\nclustereventquota.eventquota.io/good\n"; out != want {
			t.Errorf("kubectl get %s: %q, want %q", get, out, want)
		}
	}
	if one := e.kubectl("", "get", "cevq", "good", "-o", "name"); one != "clustereventquota.eventquota.io/good\n" {
		t.Errorf("kubectl get cevq good: %q", one)
	}
	const columns = "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation} {.spec.action}{.spec.limits[*].burst}\n{end}"
	if got, want := e.kubectl("", "get", "cevp,cevq", "-o", columns), "ClusterEventPolicy good 1 Exempt\nClusterEventQuota good 1 5\n"; got != want {
		t.Errorf("the API server has %q, want the valid objects unchanged, %q", got, want)
	}
	e.checkExamples()
	e.checkDeleteByName()
}

// checkBadPolicies applies objects that have one mistake each, and checks that kubectl names its field and the reason. policy and quota are
// their beginnings. One command applies them all, each as a change of an existing object and as a new one.
func (e *env) checkBadPolicies(policy, quota string) {
	e.Helper()
	mistakes := []struct{ description, good, spec, field, reason string }{
		{"an unknown action", policy, " action: Block", "spec.action", `"Limit", "Drop", "Exempt"`},
		{"a negative burst", policy, " spamFilter: {burst: -1}", "spec.spamFilter.burst", "greater than or equal to 1"},
		{"a spam filter of users", policy, " spamFilter: {per: [User]}", "spec.spamFilter.per[0]", `supported values: "Source", "InvolvedObject", "Type", "Reason"`},
		{"a duration that overflows", policy, " merge: {identical: {window: 9999999999h}}", "spec.merge.identical.window", "more than 0s and at most 24h"},
		{"a bucket that takes years to fill", policy, " spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "refill within 720h"},
		{"an unknown field", policy, " spamFilter: {brust: 25}", "spec.spamFilter.brust", "field"},
		{"a field that the action ignores", policy, " action: Drop\n merge: {enabled: false}", "spec.merge", "allowed only with action Limit"},
		{"an interval of zero", quota, " limits: [{name: all, burst: 5, tokens: 1, interval: 0s}]", "spec.limits[0].interval", "at least 1ms and at most 24h"},
		{"a duplicate part of a key", quota, " limits: [{name: all, burst: 5, tokens: 1, per: [User, User]}]", ".per", "uplicate"},
		{"an unknown field in a list", quota, " limits: [{name: all, burst: 5, tokens: 1, type: User}]", ".type", "field"},
	}
	var objects []string
	for _, m := range mistakes {
		objects = append(objects, m.good+m.spec, strings.Replace(m.good, "name: good", "name: new", 1)+m.spec)
	}
	for command, args := range map[string][]string{
		"kubectl apply":               {"apply", "-f", "-"},
		"kubectl apply --server-side": {"apply", "--server-side", "--field-manager=team", "--force-conflicts", "-f", "-"},
	} {
		stdout, stderr, err := e.cluster.Kubectl(e.Context(), strings.Join(objects, "\n---\n"), args...)
		if err == nil || stdout != "" {
			e.Fatalf("%s applied an invalid object: %s", command, stdout)
		}
		refused := strings.Split(stderr, "Error from server")[1:] // one for each object, in their order
		if len(refused) != len(objects) {
			e.Fatalf("%s printed %d errors for %d objects:\n%s", command, len(refused), len(objects), stderr)
		}
		for i, m := range mistakes {
			e.Run(m.description+" by "+command, func(t *testing.T) {
				for _, text := range refused[2*i : 2*i+2] {
					if !strings.Contains(text, m.field) || !strings.Contains(text, m.reason) {
						t.Errorf("kubectl does not name the field %q and the reason %q:\n%s", m.field, m.reason, text)
					}
				}
			})
		}
	}
}
