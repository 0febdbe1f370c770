package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

const (
	meta    = "---\napiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: p}\n"
	quota   = "---\napiVersion: eventquota.io/v1alpha1\nkind: EventQuota\nmetadata: {name: q, namespace: shop}\n"
	limits  = "spec: {limits: [{name: all, burst: 1, tokens: 1}]}\n"
	labeled = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {tenant: shop}}\n"
)

func TestLintSaysWhatIsWrong(t *testing.T) {
	for says, test := range map[string]struct {
		files string
		want  []string // the beginnings of lines, without the path of the file
		err   string
	}{
		"nothing":          {meta + quota + limits, []string{"no errors, no warnings"}, ""},
		"an unknown field": {meta + "spec: {merge: {window: 1h}}\n", []string{`error: document 1: ClusterEventPolicy p: strict decoding error: unknown field "spec.merge.window"`}, "lint: errors: 1"},
		"a field of Events that is none": {
			meta + "spec: {match: {conditions: [{name: c, expression: 'event.reasn == \"\"'}]}}\n",
			[]string{"error: document 1: ClusterEventPolicy p: spec.match.conditions[0].expression: "}, "lint: errors: 1"},
		"each document that is wrong": {
			meta + "spec: {precedence: 0.5}\n" + quota + limits + quota + limits,
			[]string{"error: document 1: ClusterEventPolicy p: ", "error: document 3: EventQuota shop/q: metadata.name: Duplicate value"}, "lint: errors: 2"},
		"each item of a list that is wrong": {
			"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret}, {apiVersion: v1, kind: Namespace, metadata: {name: a}}, {apiVersion: v1, kind: Thing}]\n",
			[]string{"error: document 1: items[0]: kind Secret: ", "error: document 1: items[2]: no kind "}, "lint: errors: 2"},
		"a rule that is disabled":       {meta + "spec: {mode: Disabled}\n", []string{"warning: ClusterEventPolicy p: its mode is Disabled"}, ""},
		"a selector that selects":       {labeled + meta + "spec: {match: {namespaceSelector: {matchLabels: {tenant: shop}}}}\n", []string{"no errors, no warnings"}, ""},
		"a selector, and no namespaces": {meta + "spec: {match: {namespaceSelector: {matchLabels: {tenant: shop}}}}\n", []string{"no errors, no warnings"}, ""},
		"a selector that selects nothing": {
			labeled + meta + "spec: {match: {namespaceSelector: {matchLabels: {tenant: bank}}}}\n",
			[]string{"warning: ClusterEventPolicy p: its namespaceSelector selects no namespace of the files"}, ""},
	} {
		t.Run(says, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(file, []byte(test.files), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs, err := cli.Run(t, cli.Under(Command()), strings.NewReader(""), "lint", file)
			if got := message(err); got != test.err || errs != "" {
				t.Errorf("error %q and %q, want %q", got, errs, test.err)
			}
			lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(out, file+": ", "")), "\n")
			if len(lines) != len(test.want) {
				t.Fatalf("said %q, want %q", lines, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("said %q, want %q", lines[i], want)
				}
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLintSaysWhatCanNeverApply(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shadowed.yaml")
	err := os.WriteFile(file, []byte(`apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: first}
spec: {tier: Admin, action: Drop}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: second}
spec: {tier: Baseline, match: {types: [Normal]}}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, err := cli.Run(t, cli.Under(Command()), nil, "lint", file)
	if err != nil || !strings.Contains(out+errs, "ClusterEventPolicy second: governed by ClusterEventPolicy first") {
		t.Errorf("said %q (%v), want that the first stands before the second", out+errs, err)
	}
}

func TestLintNeedsFilesThatAreThere(t *testing.T) {
	cli.Refuses(t, cli.Under(Command()), "lint: must be given files", "lint")
	cli.Refuses(t, cli.Under(Command()), "lint: stat /nowhere: ", "lint", "/nowhere")
}
