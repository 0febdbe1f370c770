package e2e

import (
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cluster"
)

// kubectl runs kubectl as the administrator, and returns what it says.
func (e *env) kubectl(stdin string, args ...string) string {
	e.Helper()
	stdout, _, err := e.cluster.Kubectl(e.Context(), stdin, args...)
	e.must(err)
	return stdout
}

// TestKubectlAppliesCRDsAndRefusesBadPolicies does what a user does at the
// beginning, and what a user gets wrong. What a schema refuses is in the tests of
// package v1alpha1; here are the ways of kubectl to it. No webhook runs: the API
// server alone refuses.
func TestKubectlAppliesCRDsAndRefusesBadPolicies(t *testing.T) {
	if !isolated(t) {
		return
	}
	e := &env{T: t, cluster: cluster.ForTest(t, cluster.Options{NoAudit: true})}
	e.kubectl("", "apply", "-f", crdDir)
	e.kubectl("", "wait", "--for=condition=Established", "--timeout=30s", "-f", crdDir)
	if again := e.kubectl("", "apply", "-f", crdDir); strings.Count(again, " unchanged\n") != 4 {
		t.Errorf("the same definitions once more: %q, want all unchanged", again)
	}
	const policy = "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: good}\nspec:\n"
	const quota = "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: good}\nspec:\n"
	e.kubectl(policy+" action: Exempt", "apply", "-f", "-")
	e.kubectl(quota+" limits: [{name: all, burst: 5, tokens: 1}]", "apply", "-f", "-")

	for _, test := range []struct{ says, good, spec, names, why string }{
		{"an unknown action", policy, " action: Block", "spec.action", `"Limit", "Drop", "Exempt"`},
		{"a negative burst", policy, " spamFilter: {burst: -1}", "spec.spamFilter.burst", "greater than or equal to 1"},
		{"a spam filter of users", policy, " spamFilter: {per: [User]}", "spec.spamFilter.per[0]", `supported values: "Source", "InvolvedObject", "Type", "Reason"`},
		{"a duration that overflows", policy, " merge: {identical: {window: 9999999999h}}", "spec.merge.identical.window", "more than 0s and at most 24h"},
		{"a bucket that takes years to fill", policy, " spamFilter: {burst: 1000000, interval: 24h}", "spec.spamFilter", "refill within 720h"},
		{"an unknown field", policy, " spamFilter: {brust: 25}", "spec.spamFilter.brust", "field"},
		{"what the action ignores", policy, " action: Drop\n merge: {enabled: false}", "spec.merge", "allowed only with action Limit"},
		{"an interval of zero", quota, " limits: [{name: all, burst: 5, tokens: 1, interval: 0s}]", "spec.limits[0].interval", "at least 1ms and at most 24h"},
		{"a part of a key twice", quota, " limits: [{name: all, burst: 5, tokens: 1, per: [User, User]}]", ".per", "uplicate"},
		{"an unknown field of a list", quota, " limits: [{name: all, burst: 5, tokens: 1, type: User}]", ".type", "field"},
	} {
		for way, args := range map[string][]string{
			"kubectl apply":               {"apply", "-f", "-"},
			"kubectl apply --server-side": {"apply", "--server-side", "--field-manager=team", "--force-conflicts", "-f", "-"},
		} {
			t.Run(test.says+" by "+way, func(t *testing.T) {
				// Once in the place of one that is good, and once as a new one.
				both := test.good + test.spec + "\n---\n" + strings.Replace(test.good, "name: good", "name: new", 1) + test.spec + "\n"
				stdout, stderr, err := e.cluster.Kubectl(t.Context(), both, args...)
				if err == nil || stdout != "" {
					t.Fatalf("kubectl applied it: %s", stdout)
				}
				if strings.Count(stderr, test.names) < 2 || strings.Count(stderr, test.why) < 2 {
					t.Errorf("kubectl does not name %q and say %q of both:\n%s", test.names, test.why, stderr)
				}
			})
		}
	}
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
	if kept, want := e.kubectl("", "get", "cevp,cevq", "-o", columns), "ClusterEventPolicy good 1 Exempt\nClusterEventQuota good 1 5\n"; kept != want {
		t.Errorf("the API server has %q, want the good ones as they were, %q", kept, want)
	}
	e.checkExamples()
	e.checkDeleteByName()
}
