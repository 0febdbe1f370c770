package simulate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/simulate"
)

// policyFile writes a file with policies and returns its path.
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
		"no file":                         {nil, []string{"simulate: either name files (- is standard input) or set --sample"}},
		"an empty file":                   {[]string{os.DevNull}, []string{"simulate: " + os.DevNull + ": it is empty"}},
		"a table":                         {[]string{"help.txt"}, []string{"simulate: help.txt: it is not an audit log of the API server, a watch or Events, in JSON or YAML"}},
		"a TTL of zero":                   {[]string{"audit.log", "--event-ttl", "0s"}, []string{"--event-ttl 0s: must be at least 1s"}},
		"a file and a sample":             {[]string{"audit.log", "--sample", "churn"}, []string{"simulate: either name files"}},
		"an unknown sample":               {[]string{"--sample", "rain"}, []string{`"rain" for "--sample" flag: must be one of churn, narrow, probes, quiet`}},
		"a sample of no nodes":            {[]string{"--sample", "quiet", "--sample-nodes", "0"}, []string{"--sample-nodes 0: must be from 1 to 100000"}},
		"a sample of many nodes":          {[]string{"--sample", "quiet", "--sample-nodes", "100001"}, []string{"--sample-nodes 100001: must be from 1 to 100000"}},
		"a missing file":                  {[]string{"no.log"}, []string{"simulate: no.log: cannot be read: no such file or directory"}},
		"a directory without Events":      {[]string{"directory"}, []string{"simulate: the input has no Event writes"}},
		"a directory without files":       {[]string{t.TempDir()}, []string{": the directory has no files"}},
		"an unknown format":               {[]string{"audit.log", "-o", "xml"}, []string{`"xml" for "-o, --output" flag: must be one of table, json, html, decisions`}},
		"two sources of policies":         {[]string{"audit.log", "--policies", "policies.yaml", "--kubeconfig", "x"}, []string{"[policies kubeconfig]", "none of the others"}},
		"a missing kubeconfig":            {[]string{"audit.log", "--kubeconfig", "/nowhere"}, []string{"--kubeconfig: ", "/nowhere"}},
		"missing policies":                {[]string{"audit.log", "--policies", "/nowhere"}, []string{"--policies: /nowhere: cannot be read: no such file or directory"}},
		"no policies":                     {[]string{"audit.log", "--policies", ""}, []string{`invalid argument "" for "--policies" flag: must not be empty`}},
		"one path of two":                 {[]string{"audit.log", "--policies", "policies.yaml,"}, []string{`invalid argument "policies.yaml," for "--policies" flag: no part of the list may be empty`}},
		"no --compare":                    {[]string{"audit.log", "--compare="}, []string{`invalid argument "" for "--compare" flag: must not be empty`}},
		"no kubeconfig":                   {[]string{"audit.log", "--kubeconfig", ""}, []string{`invalid argument "" for "--kubeconfig" flag: must not be empty`}},
		"a missing --compare":             {[]string{"audit.log", "--compare", "/nowhere"}, []string{"--compare: ", "/nowhere"}},
		"a directory of other kinds":      {[]string{"audit.log", "--policies", "../../../../manifests/components/redis"}, []string{"--policies: ../../../../manifests/components/redis: has no policy or quota"}},
		"a directory without policies":    {[]string{"audit.log", "--policies", t.TempDir()}, []string{"--policies: ", "has no .yaml, .yml or .json file"}},
		"invalid YAML":                    {policies("{"), []string{"--policies: ", "p.yaml:1: a value is expected here"}},
		"another kind":                    {policies("apiVersion: v1\nkind: Secret\nmetadata: {name: s}"), []string{"p.yaml: has no policy or quota of eventquota.io/v1alpha1, but 1 object of other kinds"}},
		"an unknown kind":                 {policies("apiVersion: v1\nkind: Thing"), []string{"p.yaml: has no policy or quota"}},
		"an unknown field":                {policies(meta + "spec: {priority: 1}"), []string{"p.yaml:4: ClusterEventPolicy p: spec.priority: unknown field"}},
		"a value out of range":            {policies("---\n" + meta + "spec: {}\n---\n" + strings.Replace(meta, "p}", "q}", 1) + "spec: {precedence: 1000001}"), []string{"p.yaml:10: ClusterEventPolicy q: spec.precedence: must be at most 10000"}},
		"an invalid condition":            {policies(meta + "spec: {match: {conditions: [{name: c, expression: 'event.'}]}}"), []string{"ClusterEventPolicy p: spec.match.conditions[0].expression: "}},
		"an unknown field of Events":      {policies(meta + "spec: {match: {conditions: [{name: c, expression: 'event.reasn == 0'}]}}"), []string{"expression: ", "column 7: \"reasn\" is no field of event; did you mean reason?"}},
		"three mistakes":                  {policies(meta + "spec: {mode: Observe}\n---\n" + strings.Replace(meta, "p}", "q}", 1) + "spec: {mode: Observe, precedence: 0}"), []string{"p.yaml:4: ClusterEventPolicy p: spec.mode: must be one of Enforce, Audit, Disabled, not \"Observe\" (eventquota lint lists this and 2 more errors)"}},
		"an unknown mode":                 {policies(meta + "spec: {mode: Observe}"), []string{"ClusterEventPolicy p: ", "spec.mode: must be one of Enforce, Audit, Disabled"}},
		"a quota without a limit":         {policies("apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: q}\nspec: {}"), []string{"ClusterEventQuota q: spec.limits: is required"}},
		"a quota without a namespace":     {policies("apiVersion: eventquota.io/v1alpha1\nkind: EventQuota\nmetadata: {name: q}"), []string{"EventQuota q: ", "metadata.namespace: is required"}},
		"the same policy twice":           {policies(meta + "spec: {}\n---\n" + meta + "spec: {}"), []string{"p.yaml:8: ", "metadata.name: is already used by an object of this kind"}},
		"a policy without a name":         {policies(strings.Replace(meta, "name: p", "", 1)), []string{"metadata.name: is required"}},
		"a policy without a namespace":    {policies(strings.Replace(meta, "Cluster", "", 1)), []string{"EventPolicy p: metadata.namespace: is required"}},
		"a cluster policy in a namespace": {policies(strings.Replace(meta, "name: p", "name: p, namespace: shop", 1)), []string{"metadata.namespace: is not allowed"}},
		"a list of other kinds":           {policies("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret}]"), []string{"p.yaml: has no policy or quota"}},
	} {
		t.Run(says, func(t *testing.T) {
			_, _, err := simulateIn(t, "", test.args...)
			if err == nil {
				t.Fatal("no error was returned")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want it to contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has several lines, want one", err)
			}
		})
	}
}

func TestInputWithoutWritesIsDescribed(t *testing.T) {
	_, notes, err := simulateIn(t, "{\"kind\":\"Pod\"}\n", "-")
	if err == nil || err.Error() != "simulate: the input has no Event writes" {
		t.Errorf("error %v, want that the input has no Event writes", err)
	}
	if want := "standard input:1: it is not an audit log entry, a watch event or an Event"; !strings.Contains(notes, want) {
		t.Errorf("standard error %q, want it to contain %q", notes, want)
	}
}

func TestDecisionLines(t *testing.T) {
	out, _, err := simulateIn(t, "", "audit.log", "--compare", "policies.yaml", "-o", "decisions")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 71 {
		t.Fatalf("%d decisions, want 71", len(lines))
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
