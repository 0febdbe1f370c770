package lint

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// lint runs eventquota lint.
func lint(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return cli.Run(t, cli.WithRoot(Command()), strings.NewReader(stdin), append([]string{"lint"}, args...)...)
}

func TestLint(t *testing.T) {
	t.Chdir("testdata")
	for says, test := range map[string]struct {
		stdin, args, output, err string
	}{
		"a mistake of each kind": {"", "policies.yaml", "policies.txt", "lint: 3 errors and 6 warnings"},
		"as JSON":                {"", "policies.yaml -o json", "policies.json.txt", "lint: 3 errors and 6 warnings"},
		"for GitHub":             {"", "policies.yaml -o github", "policies.github.txt", "lint: 3 errors and 6 warnings"},
		"what is valid":          {"", "valid.json", "valid.txt", ""},
		"valid as JSON":          {"", "valid.json -o json", "valid.json.txt", ""},
		"warnings":               {"", "warned.yaml", "warned.txt", ""},
		"warnings for GitHub":    {"", "warned.yaml -o github", "warned.github.txt", ""},
		"warnings under --strict": {"", "warned.yaml --strict", "warned.txt",
			"lint: 2 warnings, and --strict allows none"},
		"standard input": {cli.ReadFile(t, "warned.yaml"), "- -o github", "stdin.github.txt", ""},
	} {
		t.Run(says, func(t *testing.T) {
			out, errs, err := lint(t, test.stdin, strings.Fields(test.args)...)
			if got := errorText(err); got != test.err || errs != "" {
				t.Errorf("error %q, standard error %q, want only the error %q", got, errs, test.err)
			}
			cli.CompareGolden(t, test.output, out)
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestShippedPoliciesAreValid lints every directory of manifests.
func TestShippedPoliciesAreValid(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", "..", "manifests"))
	dirs, err := filepath.Glob("components/*")
	if err != nil || len(dirs) < 10 {
		t.Fatalf("%d components, error %v, want at least 10", len(dirs), err)
	}
	overlays, err := filepath.Glob("overlays/*")
	if err != nil || len(overlays) < 3 {
		t.Fatalf("%d overlays, error %v, want at least 3", len(overlays), err)
	}
	ends := map[string]string{
		// Many examples match the same Events and shadow each other.
		"examples":                          "10 policies and 12 quotas are valid, with 8 warnings",
		"base":                              "1 policy and 1 quota are valid",
		"components/recommended-100-nodes":  "1 quota is valid",
		"components/recommended-1000-nodes": "1 quota is valid",
		"components/recommended-5000-nodes": "1 quota is valid",
	}
	examples, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(examples) < 10 {
		t.Fatalf("%d examples, error %v, want at least 10", len(examples), err)
	}
	for _, path := range examples {
		if out, _, err := lint(t, "", path, "--strict"); err != nil {
			t.Errorf("%s: error %v, output %s", path, err, out)
		}
	}
	for _, dir := range append(append(dirs, overlays...), "examples", "base", "crds", "alerts", "dashboards") {
		want, ours := ends[dir]
		if !ours {
			want = "no policies or quotas found"
		}
		out, errs, err := lint(t, "", dir)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if last := lines[len(lines)-1]; err != nil || errs != "" || last != want {
			t.Errorf("%s: error %v, standard error %q, output %q\nwant the last line %q", dir, err, errs, out, want)
		}
		for _, line := range lines[:len(lines)-1] {
			if !strings.HasPrefix(line, "note: ") && !ours {
				t.Errorf("%s: unexpected line %s", dir, line)
			}
		}
	}
}

// TestConditionCostCountsSharedExpressionsOnce checks that an expression counts once, and not at all in a disabled rule.
func TestConditionCostCountsSharedExpressionsOnce(t *testing.T) {
	t.Parallel()
	rule := func(name, mode, expression string) string {
		return "---\napiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: " + name + "}\nspec: {mode: " + mode +
			", match: {conditions: [{name: c, expression: " + expression + "}]}}\n"
	}
	const cheap, costly = "event.count > 1", `'event.message.contains("a")'`
	cost := func(rules ...string) (all, one cost) {
		t.Helper()
		out, _, err := lint(t, strings.Join(rules, ""), "-", "-o", "json")
		var r report
		if decodeErr := json.Unmarshal([]byte(out), &r); err != nil || decodeErr != nil || len(r.Conditions) != len(rules) {
			t.Fatalf("errors %v and %v, output %q, want %d conditions", err, decodeErr, out, len(rules))
		}
		return r.All, r.One
	}
	first, _ := cost(rule("a", "Enforce", cheap))
	second, _ := cost(rule("a", "Enforce", costly))
	together, one := cost(rule("a", "Enforce", cheap), rule("b", "Audit", costly), rule("c", "Enforce", cheap))
	if together.Steps != first.Steps+second.Steps || one.Steps != second.Steps || first.Steps >= second.Steps || together.Bytes >= first.Bytes+second.Bytes {
		t.Errorf("costs %+v and %+v, together %+v, the costliest %+v", first, second, together, one)
	}
	if all, _ := cost(rule("a", "Enforce", cheap), rule("b", "Disabled", costly)); all != first {
		t.Errorf("cost %+v, want %+v without the disabled policy", all, first)
	}
}

// TestFileNamesAreEscapedInAnnotations uses names with workflow commands and terminal escapes.
func TestFileNamesAreEscapedInAnnotations(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "a,line=9::b%0A\n::error::c\r\x1b[2J.yaml"
	content := "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: \"p,col=1::x%0A\\n::stop-commands::y\"}\nspec: {mode: \"a\\n::error::100%\"}\n"
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := lint(t, "", name, "-o", "github")
	if err == nil {
		t.Fatal("no error was returned")
	}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "::error file=a%2Cline=9%3A%3Ab%250A %3A%3Aerror%3A%3Ac \ufffd[2J.yaml,line=") ||
			!strings.Contains(line, ",title=ClusterEventPolicy p%2Ccol=1%3A%3Ax%250A %3A%3Astop-commands%3A%3Ay::") || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("line %q is not an annotation with escaped names", line)
		}
	}
	if !strings.Contains(out, `not "a\n%3A%3Aerror`) && !strings.Contains(out, `not "a\n::error::100%25"`) {
		t.Errorf("output %q does not contain the invalid value", out)
	}
}

func TestBadArgumentsReturnOneError(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"no file":           {nil, "lint: name at least one file or directory, or - for standard input"},
		"an unknown format": {[]string{"testdata", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: must be one of table, json, github`},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			cli.WantError(t, cli.WithRoot(Command()), test.want, append([]string{"lint"}, test.args...)...)
		})
	}
}

func TestEndlessFileIsBounded(t *testing.T) {
	t.Parallel()
	out, _, err := cli.Run(t, cli.WithRoot(Command()), cli.EndlessReader{}, "lint", "-")
	if err == nil || out != "standard input: must have at most 16777216 bytes\n" {
		t.Errorf("error %v, output %q, want that the input is too long", err, out)
	}
}

// TestLintReturnsWriteErrors checks that a failed write of the report is an error.
func TestLintReturnsWriteErrors(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "json", "github"} {
		closed, out := io.Pipe()
		_ = closed.Close()
		cmd := cli.WithRoot(Command())
		cmd.SetOut(out)
		cmd.SetArgs([]string{"lint", filepath.Join("testdata", "warned.yaml"), "-o", format})
		if err := cmd.Execute(); err == nil {
			t.Errorf("-o %s to a closed pipe returned no error", format)
		}
	}
}
