package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulateIn runs webhook simulate in testdata/simulate.
func simulateIn(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir(filepath.Join("testdata", "simulate"))
	var out, errs bytes.Buffer
	cmd := root()
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append([]string{"simulate"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestSimulate(t *testing.T) {
	list := read(t, filepath.Join("testdata", "simulate", "events.json"))
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
		"no Warning is dropped":                {args: "audit.log --policies policies.yaml --fail-on warning-dropped", output: "policies.txt"},
		"something is dropped":                 {args: "audit.log --policies policies.yaml --fail-on warning-dropped,dropped", output: "policies.txt", err: "simulate: --fail-on dropped: 31"},
		"it does not matter what the other is": {args: "audit.log --compare policies.yaml --fail-on broken-line", output: "compared.txt", err: "simulate: --fail-on broken-line: 1"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := simulateIn(t, test.stdin, strings.Fields(test.args)...)
			if test.err == "" && err != nil || test.err != "" && (err == nil || err.Error() != test.err || exitCode(err) != 2) {
				t.Errorf("error %v, want %q with exit code 2", err, test.err)
			}
			if notes != "" {
				t.Errorf("standard error has %q, want nothing", notes)
			}
			if *update {
				if err := os.WriteFile(test.output, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want := read(t, test.output); out != want {
				t.Errorf("got\n%s\nwant what is in %s; -update rewrites it:\n%s", out, test.output, want)
			}
		})
	}
}
