package simulate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/simulate"
)

// policyFile writes a file of policies.
func policyFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadInputReturnsOneError(t *testing.T) {
	const meta = "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: p}\n"
	policies := func(content string) []string { return []string{"audit.log", "--policies", policyFile(t, content)} }
	for says, test := range map[string]struct {
		args []string
		want []string
	}{
		"no file":                        {nil, []string{"simulate: must be given files, - for standard input, or --sample"}},
		"an empty file":                  {[]string{os.DevNull}, []string{"simulate: " + os.DevNull + ": it is empty"}},
		"a table":                        {[]string{"help.txt"}, []string{"simulate: help.txt: it is not an audit log of the API server, a watch or Events, in JSON or YAML"}},
		"no time to keep Events":         {[]string{"audit.log", "--event-ttl", "0s"}, []string{"--event-ttl 0s: must be at least 1s"}},
		"a file and a sample":            {[]string{"audit.log", "--sample", "churn"}, []string{"simulate: must be given files"}},
		"an unknown sample":              {[]string{"--sample", "rain"}, []string{`"rain" for "--sample" flag: must be one of churn, narrow, probes, quiet`}},
		"a sample of no nodes":           {[]string{"--sample", "quiet", "--sample-nodes", "0"}, []string{"--sample-nodes 0: must be from 1 to 100000"}},
		"a sample of many nodes":         {[]string{"--sample", "quiet", "--sample-nodes", "100001"}, []string{"--sample-nodes 100001: must be from 1 to 100000"}},
		"a file that is not there":       {[]string{"no.log"}, []string{"simulate: stat no.log: ", "no such file"}},
		"a directory without Events":     {[]string{"directory"}, []string{"simulate: there are no Event writes in the input"}},
		"a directory without files":      {[]string{t.TempDir()}, []string{": there is no file in it"}},
		"an unknown format":              {[]string{"audit.log", "-o", "xml"}, []string{`"xml" for "-o, --output" flag: must be one of table, json, html, decisions`}},
		"two origins of policies":        {[]string{"audit.log", "--policies", "policies.yaml", "--kubeconfig", "x"}, []string{"[policies kubeconfig]", "none of the others"}},
		"a kubeconfig that is not there": {[]string{"audit.log", "--kubeconfig", "/nowhere"}, []string{"--kubeconfig: ", "/nowhere"}},
		"policies that are not there":    {[]string{"audit.log", "--policies", "/nowhere"}, []string{"--policies: /nowhere: cannot be read: no such file or directory"}},
		"others that are not there":      {[]string{"audit.log", "--compare", "/nowhere"}, []string{"--compare: ", "/nowhere"}},
		"a directory of other kinds":     {[]string{"audit.log", "--policies", "../../../../manifests/components/redis"}, []string{"--policies: ../../../../manifests/components/redis: has no policy or quota in it"}},
		"a directory without policies":   {[]string{"audit.log", "--policies", t.TempDir()}, []string{"--policies: ", "has no .yaml, .yml or .json file"}},
		"no YAML":                        {policies("{"), []string{"--policies: ", "p.yaml:1: a value is expected here"}},
		"another kind":                   {policies("apiVersion: v1\nkind: Secret\nmetadata: {name: s}"), []string{"p.yaml: has no policy or quota of eventquota.io/v1alpha1, but 1 object of other kinds"}},
		"a kind that nobody knows":       {policies("apiVersion: v1\nkind: Thing"), []string{"p.yaml: has no policy or quota"}},
		"an unknown field":               {policies(meta + "spec: {priority: 1}"), []string{"p.yaml:4: ClusterEventPolicy p: spec.priority: unknown field"}},
		"a value out of range":           {policies("---\n" + meta + "spec: {}\n---\n" + strings.Replace(meta, "p}", "q}", 1) + "spec: {precedence: 1000001}"), []string{"p.yaml:10: ClusterEventPolicy q: spec.precedence: must be at most 10000"}},
		"a condition that is none":       {policies(meta + "spec: {match: {conditions: [{name: c, expression: 'event.'}]}}"), []string{"ClusterEventPolicy p: spec.match.conditions[0].expression: "}},
		"a field of Events that is none": {policies(meta + "spec: {match: {conditions: [{name: c, expression: 'event.reasn == 0'}]}}"), []string{"expression: ", "column 7: \"reasn\" is no field of event; did you mean reason?"}},
		"three mistakes":                 {policies(meta + "spec: {mode: Observe}\n---\n" + strings.Replace(meta, "p}", "q}", 1) + "spec: {mode: Observe, precedence: 0}"), []string{"p.yaml:4: ClusterEventPolicy p: spec.mode: must be one of Enforce, Audit, Disabled, not \"Observe\" (eventquota lint names this and 2 more mistakes)"}},
		"an unknown mode":                {policies(meta + "spec: {mode: Observe}"), []string{"ClusterEventPolicy p: ", "spec.mode: must be one of Enforce, Audit, Disabled"}},
		"a quota without a limit":        {policies("apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: q}\nspec: {}"), []string{"ClusterEventQuota q: spec.limits: is required"}},
		"a quota of no namespace":        {policies("apiVersion: eventquota.io/v1alpha1\nkind: EventQuota\nmetadata: {name: q}"), []string{"EventQuota q: ", "metadata.namespace: is required"}},
		"the same policy twice":          {policies(meta + "spec: {}\n---\n" + meta + "spec: {}"), []string{"p.yaml:8: ", "metadata.name: is already used by an object of this kind"}},
		"a policy without a name":        {policies(strings.Replace(meta, "name: p", "", 1)), []string{"metadata.name: is required"}},
		"a policy of no namespace":       {policies(strings.Replace(meta, "Cluster", "", 1)), []string{"EventPolicy p: metadata.namespace: is required"}},
		"a cluster's in a namespace":     {policies(strings.Replace(meta, "name: p", "name: p, namespace: shop", 1)), []string{"metadata.namespace: is not allowed"}},
		"one in a list":                  {policies("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret}]"), []string{"p.yaml: has no policy or quota"}},
	} {
		t.Run(says, func(t *testing.T) {
			_, _, err := simulateIn(t, "", test.args...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has several lines", err)
			}
		})
	}
}

func TestInputWithoutWritesNamesWhatWasRead(t *testing.T) {
	_, notes, err := simulateIn(t, "{\"kind\":\"Pod\"}\n", "-")
	if err == nil || err.Error() != "simulate: there are no Event writes in the input" {
		t.Errorf("error %v", err)
	}
	if want := "standard input:1: it is neither an entry of an audit log, nor an event of a watch, nor an Event"; !strings.Contains(notes, want) {
		t.Errorf("standard error %q, want %q", notes, want)
	}
}

func TestDecisionLines(t *testing.T) {
	out, _, err := simulateIn(t, "", "audit.log", "--compare", "policies.yaml", "-o", "decisions")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 71 {
		t.Fatalf("%d lines, want 71", len(lines))
	}
	var second simulate.Decision
	if err := json.Unmarshal([]byte(lines[1]), &second); err != nil {
		t.Fatal(err)
	}
	want := simulate.Decision{
		Time: second.Time, Line: 2, AuditID: "request-2", Verb: "create", Namespace: "shop", Name: "web-0.1",
		Outcome: "merge", Message: "merged into a stored Event, 2 occurrences so far",
		Policy: "default", Controller: "kubelet", Type: "Warning", Reason: "BackOff",
	}
	if second != want {
		t.Errorf("decision %+v, want %+v", second, want)
	}
}
