package explain

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// noticeNames are the names of notices, which are never the same twice.
var noticeNames = regexp.MustCompile("eventquota-[0-9a-f]{32}")

func TestExplainSaysWhatIsMergedPendingAndDropped(t *testing.T) {
	for says, test := range map[string]struct{ object, flags, output string }{
		"help":    {"--help", "", "help.txt"},
		"a table": {"pod/web-0", "", "storm.txt"},
		"JSON":    {"Pods/web-0", "-n storm -o json", "storm.json.txt"},
	} {
		t.Run(says, func(t *testing.T) {
			r := newExplainRig(t, stormPolicies, "memory", memoryOf(t)).storm()
			args := append([]string{test.object, "--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL}, strings.Fields(test.flags)...)
			first, err := explain(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			cli.Golden(t, filepath.Join("testdata", test.output), noticeNames.ReplaceAllString(first, "eventquota-NAME"))
			// It has changed nothing.
			if again, err := explain(t, args...); err != nil || again != first {
				t.Errorf("%v, and once more it says\n%s", err, again)
			}
		})
	}
}

func TestExplainSaysWhichPoliciesItLeavesOut(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", memoryOf(t)).storm()
	for says, test := range map[string]struct{ policies, note, governs string }{
		"one that is not valid": {
			stormPolicies + `---
apiVersion: eventquota.io/v1alpha1
kind: EventPolicy
metadata: {name: wrong, namespace: storm}
spec: {match: {conditions: [{name: number, expression: 1 + 1}]}}
`, "Note: EventPolicy storm/wrong: spec.match.conditions[0].expression: ", "ClusterEventPolicy floor governs BackOff",
		},
		"all, as there are no CRDs": {"", "Note: the cluster has no policies, as their CRDs are not installed: the built-in default governs", "default governs BackOff"},
	} {
		t.Run(says, func(t *testing.T) {
			r.policies = test.policies
			out, err := explain(t, "pod/web-0", "--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL)
			if err != nil || !strings.Contains(out, test.note) || !strings.Contains(out, test.governs) {
				t.Errorf("%v, %s\nwant %q and %q", err, out, test.note, test.governs)
			}
		})
	}
}

func TestNoFormatHasEscapeCodesOfOthers(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", memoryOf(t))
	r.wrote("evil\x1b[2J\u009b2J", "Normal", "Evil\x1b]0;owned\a\tcell\n\u202e\x7f", "message")
	for format, want := range map[string]string{
		"table": "Evil\ufffd]0;owned\ufffd cell", "wide": "Evil\ufffd]0;owned\ufffd cell",
		"json": `Evil\u001b]0;owned\u0007\tcell`, "yaml": `Evil\e]0;owned\a\tcell`, "name": "event/",
	} {
		out, err := explain(t, "pod/web-0", "-o", format, "--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL)
		hidden := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
		if err != nil || strings.ContainsFunc(out, hidden) || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %q", format, err, out)
		}
	}
}
