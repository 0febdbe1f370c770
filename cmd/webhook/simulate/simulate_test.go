package simulate

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// simulateIn runs eventquota simulate in testdata.
func simulateIn(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir("testdata")
	return cli.Run(t, cli.WithRoot(Command()), strings.NewReader(stdin), append([]string{"simulate"}, args...)...)
}

func TestSimulate(t *testing.T) {
	list := cli.ReadFile(t, filepath.Join("testdata", "events.json"))
	for says, test := range map[string]struct {
		stdin  string
		args   string
		output string
	}{
		"help":                       {args: "--help", output: "help.txt"},
		"the built-in default":       {args: "audit.log --policies default", output: "default.txt"},
		"policies of a file":         {args: "audit.log --policies policies.yaml", output: "policies.txt"},
		"policies of a directory":    {args: "audit.log --policies directory", output: "directory.txt"},
		"as JSON":                    {args: "audit.log --policies policies.yaml -o json", output: "policies.json.txt"},
		"compared with the default":  {args: "audit.log --policies policies.yaml --compare default", output: "compare.txt"},
		"a list on standard input":   {stdin: list, args: "-", output: "list.txt"},
		"a sample":                   {args: "--sample quiet --sample-nodes 5", output: "sample.txt"},
		"a sample under the default": {args: "--sample quiet --sample-nodes 5 --policies default", output: "sample-default.txt"},
		"a sample and the default":   {args: "--sample quiet --sample-nodes 5 --compare default", output: "sample-compare.txt"},
		"the sample narrow":          {args: "--sample narrow", output: "narrow.txt"},
		"the sample probes":          {args: "--sample probes", output: "probes.txt"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := simulateIn(t, test.stdin, strings.Fields(test.args)...)
			if err != nil || notes != "" {
				t.Errorf("error %v, standard error %q, want neither", err, notes)
			}
			cli.CompareGolden(t, test.output, out)
		})
	}
}

// TestRecordingRunsUnderCeiling checks that the quota of every installation applies to a recording, unless policies are named.
func TestRecordingRunsUnderCeiling(t *testing.T) {
	const burst, more = 4000, 50 // of ceiling's limit for a namespace
	var events strings.Builder
	for i := range burst + more {
		fmt.Fprintf(&events, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e-%[1]d","namespace":"shop"},"type":"Normal","reason":"Killing",`+
			`"involvedObject":{"kind":"Pod","namespace":"shop","name":"web-%[1]d"},"firstTimestamp":"2026-11-01T12:00:00Z","count":1}`+"\n", i)
	}
	for args, want := range map[string]string{
		"-":                    fmt.Sprintf("%d of 4,050 writes would have been dropped, mostly by ClusterEventQuota ceiling (namespace %[1]d).", more),
		"- --policies default": "Nothing would have been dropped.",
	} {
		t.Run(args, func(t *testing.T) {
			out, _, err := simulateIn(t, events.String(), strings.Fields(args)...)
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("error %v, report\n%s\nwant it to contain %q", err, out, want)
			}
		})
	}
}

// TestKustomizeComponentIsRead reads the policies of directories with a kustomization. Notes on standard error list what was
// skipped.
func TestKustomizeComponentIsRead(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		"components/recommended-100-nodes": "",
		"base":                             "objects of other kinds in ",
	} {
		path := filepath.Join("..", "..", "..", "manifests", filepath.FromSlash(dir))
		out, notes, err := cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), "simulate", "--sample", "quiet", "--sample-nodes", "1", "--policies", path)
		if err != nil || !strings.Contains(out, "under "+path) || !strings.Contains(notes, want) || (want == "") != (notes == "") {
			t.Errorf("%s: error %v, report %q, notes %q, want the notes to contain %q", dir, err, out, notes, want)
		}
	}
}
