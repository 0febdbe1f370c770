package simulate

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// simulateIn runs eventquota simulate in testdata.
func simulateIn(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir("testdata")
	return cli.Run(t, cli.Under(Command()), strings.NewReader(stdin), append([]string{"simulate"}, args...)...)
}

// found reports whether an error makes the exit code 2.
func found(err error) bool {
	says, ok := errors.AsType[foundError](err)
	return ok && says.ExitCode() == 2
}

func TestSimulate(t *testing.T) {
	list := cli.Read(t, filepath.Join("testdata", "events.json"))
	for says, test := range map[string]struct {
		stdin  string
		args   string
		output string
		err    string
	}{
		"help":                                 {args: "--help", output: "help.txt"},
		"the built-in default":                 {args: "audit.log", output: "default.txt"},
		"policies of a file":                   {args: "audit.log --policies policies.yaml", output: "policies.txt"},
		"policies of a directory":              {args: "audit.log --policies directory", output: "directory.txt"},
		"as JSON":                              {args: "audit.log --policies policies.yaml -o json", output: "policies.json.txt"},
		"beside the built-in default":          {args: "audit.log --policies policies.yaml --compare default", output: "compare.txt"},
		"a list on standard input":             {stdin: list, args: "-", output: "list.txt"},
		"several files in order of time":       {args: "events.json audit.log", output: "several.txt"},
		"a sample":                             {args: "--sample probes --sample-objects 20 --sample-nodes 5 --sample-duration 2m --sample-seed 7", output: "sample.txt"},
		"no Warning is dropped":                {args: "audit.log --policies policies.yaml --fail-on warning-dropped", output: "policies.txt"},
		"something is dropped":                 {args: "audit.log --policies policies.yaml --fail-on warning-dropped,dropped", output: "policies.txt", err: "simulate: --fail-on dropped: 31"},
		"it does not matter what the other is": {args: "audit.log --compare policies.yaml --fail-on broken-line", output: "compared.txt", err: "simulate: --fail-on broken-line: 1"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := simulateIn(t, test.stdin, strings.Fields(test.args)...)
			if test.err == "" && err != nil || test.err != "" && (err == nil || err.Error() != test.err || !found(err)) {
				t.Errorf("error %v, want %q with exit code 2", err, test.err)
			}
			if notes != "" {
				t.Errorf("standard error has %q, want nothing", notes)
			}
			cli.Golden(t, test.output, out)
		})
	}
}
