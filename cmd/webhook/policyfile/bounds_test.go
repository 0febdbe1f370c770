package policyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// TestBoundsMatchReplicas checks that files have the same rules in force in a namespace as replicas would.
func TestBoundsMatchReplicas(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range policy.MaxRules + 1 {
		all = append(all, fmt.Sprintf("{apiVersion: eventquota.io/v1alpha1, kind: EventPolicy, metadata: {name: p%02d, namespace: a}}", i))
	}
	for i := range 3 {
		all = append(all, fmt.Sprintf("{apiVersion: eventquota.io/v1alpha1, kind: EventQuota, metadata: {name: q%d, namespace: b}, spec: {limits: [%s]}}",
			i, strings.Repeat("{name: a%, burst: 1, tokens: 1}, ", 6)))
		for n := 0; strings.Contains(all[len(all)-1], "%"); n++ {
			all[len(all)-1] = strings.Replace(all[len(all)-1], "%", fmt.Sprint(n), 1)
		}
	}
	slices.Reverse(all)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.Join(all, "\n---\n"), "namespace: a}}", "namespace: a}, spec: {}}")), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read(Input{Paths: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	if p, q := len(r.Namespaces["a"].Policies), len(r.Namespaces["b"].Quotas); p != policy.MaxRules || q != 2 {
		t.Errorf("%d policies and %d quotas are in force, want %d and 2", p, q, policy.MaxRules)
	}
	want := []string{
		file + ":7: EventPolicy a/p16: is not in force: of the objects of kind EventPolicy in a namespace the oldest 16 are in force",
		file + ":1: EventQuota b/q2: is not in force: all objects of kind EventQuota in force in a namespace may have 16 limits together; older ones have 12, this one has 6",
	}
	if len(r.Invalid) != len(want) {
		t.Fatalf("errors %v, want %d", r.Invalid, len(want))
	}
	for i, err := range r.Invalid {
		if !strings.HasPrefix(err.Error(), want[i]) {
			t.Errorf("error %v, want %s", err, want[i])
		}
	}
}

// TestInvalidRuleCountsTowardsBounds checks that an invalid rule counts as one of the oldest, as in replicas.
func TestInvalidRuleCountsTowardsBounds(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for i := range policy.MaxRules + 1 {
		spec := "{}"
		if i == 0 {
			spec = "{precedence: -1}"
		}
		_ = r.Decode(fmt.Appendf(nil, "{apiVersion: eventquota.io/v1alpha1, kind: EventPolicy, metadata: {name: p%02d, namespace: a}, spec: %s}", i, spec))
	}
	r.applyBounds()
	if n := len(r.Namespaces["a"].Policies); n != policy.MaxRules-1 {
		t.Errorf("%d policies are in force, want %d", n, policy.MaxRules-1)
	}
}

// TestTooLargeRuleIsInvalid checks that the error names the rule and that the rule is not in force.
func TestTooLargeRuleIsInvalid(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	reasons := strings.Repeat("'"+strings.Repeat("r", 100)+"%d', ", 64)
	for i := range 64 {
		reasons = strings.Replace(reasons, "%d", fmt.Sprintf("%02d", i), 1)
	}
	large := "{apiVersion: eventquota.io/v1alpha1, kind: EventPolicy, metadata: {name: large, namespace: a}, spec: {match: {reasons: [" + reasons + "], kinds: [" + strings.ReplaceAll(reasons, "r", "k") + "]}}}"
	const want = "EventPolicy a/large: spec.match: must have at most 8192 bytes in kind EventPolicy, with 16 for each value besides its text; it has "
	if err := r.Decode([]byte(large)); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want one that begins with %q", err, want)
	}
	if n := len(r.Namespaces["a"].Policies); n != 0 {
		t.Errorf("%d policies are in force, want none", n)
	}
}
