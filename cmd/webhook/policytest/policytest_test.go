package policytest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// runIn runs eventquota test in testdata.
func runIn(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir("testdata")
	return cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), append([]string{"test"}, args...)...)
}

func TestCommand(t *testing.T) {
	for says, test := range map[string]struct {
		args, output, err string
	}{
		"help":                       {args: "--help", output: "help.txt"},
		"a directory":                {args: "passing", output: "passing.txt"},
		"a directory and below":      {args: "passing/below", output: "below.txt"},
		"the same file twice":        {args: "passing/below/../below passing/below/eventquota-test.yml", output: "below.txt"},
		"what fails":                 {args: "failing.eventquota-test.yaml", output: "failing.txt", err: "test: 4 of 5 tests failed"},
		"as JSON":                    {args: "failing.eventquota-test.yaml -o json", output: "failing.json.txt", err: "test: 4 of 5 tests failed"},
		"as JUnit has it":            {args: "failing.eventquota-test.yaml -o junit", output: "failing.xml", err: "test: 4 of 5 tests failed"},
		"only some":                  {args: "passing failing.eventquota-test.yaml --run ^a.storm", output: "run.txt", err: "test: 1 of 2 tests failed"},
		"files that are not valid":   {args: "passing/below invalid.yaml", output: "invalid.txt", err: "test: 1 file is not valid"},
		"the same as JUnit has it":   {args: "passing/below invalid.yaml -o junit", output: "invalid.xml", err: "test: 1 file is not valid"},
		"the same as JSON":           {args: "invalid.yaml -o json", output: "invalid.json.txt", err: "test: 1 file is not valid"},
		"one that is not valid, too": {args: "failing.eventquota-test.yaml invalid.yaml --run right", output: "both.txt", err: "test: 1 file is not valid"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := runIn(t, strings.Fields(test.args)...)
			if got := ""; notes != "" {
				t.Errorf("standard error %q, want nothing", notes)
			} else {
				if err != nil {
					got = err.Error()
				}
				if got != test.err {
					t.Errorf("error %q, want %q", got, test.err)
				}
			}
			cli.CompareGolden(t, test.output, out)
		})
	}
}

// TestResultsAreDeterministic checks that results do not depend on the order of files.
func TestResultsAreDeterministic(t *testing.T) {
	t.Chdir("testdata")
	run := func(args ...string) string {
		out, _, err := cli.Run(t, cli.WithRoot(Command()), nil, append([]string{"test", "-o", "json"}, args...)...)
		if err == nil || err.Error() != "test: 4 of 13 tests failed" {
			t.Errorf("error %v, want that 4 of 13 tests failed", err)
		}
		return out
	}
	first, second := run("passing", "failing.eventquota-test.yaml"), run("failing.eventquota-test.yaml", "passing")
	if first != second {
		t.Errorf("results\n%s\nand with the files in another order\n%s", first, second)
	}
}

// TestJSONAndJUnitAgree checks that both formats have the same counts, even with control characters in names.
func TestJSONAndJUnitAgree(t *testing.T) {
	const hostile = `"a\u001b[2J \u0000 \u202e <&> ]]> z"`
	file := filepath.Join(t.TempDir(), "hostile.yaml")
	content := `{"apiVersion": "test.eventquota.io/v1alpha1", "kind": "PolicyTest", "tests": [{"name": ` + hostile + `,
		"events": [{"event": {"about": "Pod/web-0", "reason": ` + hostile + `}, "want": {"merged": 1}}]}]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, read := range map[string]func([]byte) (tests, failures int, err error){
		"json": func(b []byte) (int, int, error) {
			var r Report
			err := json.Unmarshal(b, &r)
			return r.Passed + r.Failed, r.Failed, err
		},
		"junit": func(b []byte) (int, int, error) {
			var r junitReport
			err := xml.NewDecoder(bytes.NewReader(b)).Decode(&r)
			return r.Tests, r.Failures, err
		},
	} {
		out, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "test", file, "-o", format)
		if err == nil {
			t.Errorf("%s: no error was returned", format)
		}
		if tests, failures, err := read([]byte(out)); err != nil || tests != 1 || failures != 1 {
			t.Errorf("%s: %d tests, %d failures, error %v, want one failed test:\n%s", format, tests, failures, err, out)
		}
	}
}
