// Package policies contains tests of the shipped policies and quotas, for eventquota test.
package policies

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/cmd/webhook/policytest"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/test/cli"
)

// shippedFiles returns the shipped files with policies and quotas.
func shippedFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"examples/*.yaml", "base/*ceiling*.yaml", "components/*/pod-lives.yaml"} {
		found, err := filepath.Glob(filepath.Join("../../manifests", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

// TestShippedPolicies runs all tests. Each shipped rule must act on the Events of one step, and must not act on those
// of another step.
func TestShippedPolicies(t *testing.T) {
	t.Parallel()
	out, errs, err := cli.Run(t, cli.WithRoot(policytest.Command()), strings.NewReader(""), "test", ".", "-o", "json")
	if err != nil {
		text, _, _ := cli.Run(t, cli.WithRoot(policytest.Command()), strings.NewReader(""), "test", ".")
		t.Fatalf("%v\n%s%s", err, text, errs)
	}
	var report policytest.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	for _, file := range shippedFiles(t) {
		var steps []*policytest.Outcome
		for _, f := range report.Files {
			if !slices.Contains(policiesOf(t, f.Name), file) {
				continue
			}
			for _, test := range f.Tests {
				steps = append(steps, test.Events...)
			}
		}
		for _, rule := range rulesOf(t, file) {
			acts := func(o *policytest.Outcome) bool { return isActive(rule, o) }
			doesNotAct := func(o *policytest.Outcome) bool { return !isActive(rule, o) }
			if !slices.ContainsFunc(steps, acts) || !slices.ContainsFunc(steps, doesNotAct) {
				t.Errorf("%s: %s acts in one step: %t, and does not act in another: %t; want both", file, rule,
					slices.ContainsFunc(steps, acts), slices.ContainsFunc(steps, doesNotAct))
			}
		}
	}
}

// policiesOf returns the files of policies that a test file names.
func policiesOf(t *testing.T, name string) []string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Policies []string }
	if err := yaml.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d.Policies
}

// rulesOf returns the names of the rules in a file.
func rulesOf(t *testing.T, file string) (names []string) {
	t.Helper()
	rules, err := policyfile.Read(policyfile.Input{Paths: []string{file}})
	if err != nil || len(rules.Invalid) > 0 {
		t.Fatal(err, rules.Invalid)
	}
	all := policy.Rules{}
	all.Add(rules.Cluster)
	for _, n := range rules.Namespaces {
		all.Add(n.Rules)
	}
	for r := range all.All() {
		names = append(names, r.Name)
	}
	if len(names) == 0 {
		t.Fatalf("%s: no rules", file)
	}
	return names
}

// isActive reports whether a rule governs or refuses an Event, or would do so if it were not in mode Audit.
func isActive(rule string, o *policytest.Outcome) bool {
	if o == nil {
		return false
	}
	for by := range o.RefusedBy {
		if by == rule || strings.HasSuffix(by, " of "+rule) {
			return true
		}
	}
	return o.Policies[rule] > 0 || isActive(rule, o.Audited)
}
