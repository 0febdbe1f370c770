package policytest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/test/cli"
)

// file returns a test file with some parts replaced.
func file(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`apiVersion: test.eventquota.io/v1alpha1
kind: PolicyTest
policies: [policies.yaml]
namespaces: {build: {team: a}}
tests:
- name: one
  events:
  - event: {namespace: shop, about: Pod/web-0, reason: Started}
    times: 1
    want: {admitted: 1}
`)
}

// TestBadFilesReturnOneLineErrors compares the errors with testdata/errors.txt. Each names the file, the line, the field and
// the allowed values.
func TestBadFilesReturnOneLineErrors(t *testing.T) {
	policies, dir := cli.ReadFile(t, filepath.Join("testdata", "policies.yaml")), t.TempDir()
	for name, content := range map[string]string{"policies.yaml": policies, "bad.yaml": strings.ReplaceAll(policies, "burst: 2", "burst: -2")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	golden, err := filepath.Abs(filepath.Join("testdata", "errors.txt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	var got strings.Builder
	for _, test := range []struct{ says, content string }{
		{"nothing", ""},
		{"a comment", "# nothing\n"},
		{"null", "null"},
		{"text", "text"},
		{"a list", "[]"},
		{"no YAML", "tests: [}"},
		{"no YAML further down", file("events:", "events: ]")},
		{"a tab", file("  events", "\tevents")},
		{"an alias of nothing", file("{admitted: 1}", "*none")},
		{"an alias of itself", file("want: {admitted: 1}", "want: &a {admitted: *a}")},
		{"a field of no name", file("want: {admitted: 1}", "want: {[a]: 1}")},
		{"two documents", file() + "---\n" + file()},
		{"too deep", strings.Repeat("[", 200) + strings.Repeat("]", 200)},
		{"too many values", "a: &a [0,0,0,0,0,0,0,0,0]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"},
		{"too long", file() + strings.Repeat("#", document.MaxFile)},
		{"no version", file("apiVersion: test.eventquota.io/v1alpha1", "")},
		{"the version of policies", file("test.eventquota", "eventquota")},
		{"another kind", file("PolicyTest", "Test")},
		{"an unknown field", file("namespaces:", "namespace:")},
		{"an unknown field of two lines", file("namespaces:", "\"name\\nspaces\":")},
		{"an unknown field of a test", file("name: one", "names: one")},
		{"an unknown field of a step", file("times: 1", "evry: 10s")},
		{"an unknown field of an Event", file("reason: Started", "reson: Started")},
		{"an unknown field of a want", file("admitted: 1", "admit: 1")},
		{"what only a whole test can want", file("admitted: 1", "etcdWrites: 1")},
		{"an unknown field of what is audited", file("admitted: 1", "audited: {policy: a}")},
		{"a field twice", file("times: 1", "times: 1\n    times: 2")},
		{"policies that are no list", file("[policies.yaml]", "policies.yaml")},
		{"policies without a name", file("policies.yaml", "''")},
		{"policies that are not there", file("policies.yaml", "nothing.yaml")},
		{"policies that are not valid", file("policies.yaml", "bad.yaml")},
		{"a directory without any", file("policies.yaml", "empty")},
		{"namespaces that are a list", file("{build: {team: a}}", "[build]")},
		{"a label that is no text", file("team: a", "team: true")},
		{"a namespace of no such name", file("build:", "Build_1:")},
		{"no tests", strings.Split(file(), "tests:\n")[0] + "tests: []\n"},
		{"no name", file("name: one", "name: ''")},
		{"a name twice", file() + strings.Split(file(), "tests:\n")[1]},
		{"no events", strings.Split(file(), "  - event")[0]},
		{"no want", file("want: {admitted: 1}", "")},
		{"an empty want", file("{admitted: 1}", "{}")},
		{"an empty want of what is audited", file("{admitted: 1}", "{audited: {}}")},
		{"a negative count", file("admitted: 1", "admitted: -1")},
		{"a count that is text", file("admitted: 1", "admitted: many")},
		{"a count that is not whole", file("admitted: 1", "admitted: 1.5")},
		{"a count without bounds", file("admitted: 1", "admitted: {}")},
		{"bounds that nothing fits", file("admitted: 1", "admitted: {min: 2, max: 1}")},
		{"an unknown bound", file("admitted: 1", "admitted: {least: 2}")},
		{"a policy that is not there", file("admitted: 1", "policy: ClusterEventPolicy silent")},
		{"a policy that is no text", file("admitted: 1", "policy: 1")},
		{"a limit that is not there", file("admitted: 1", "refusedBy: [namespace of ClusterEventQuota fair, namespaces of ClusterEventQuota fair]")},
		{"an audited limit that is not there", file("admitted: 1", "audited: {refusedBy: all}")},
		{"neither Event nor object", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "user: me")},
		{"both", file("times: 1", "object: {}")},
		{"no object", file("about: Pod/web-0, ", "")},
		{"an object without a kind", file("Pod/web-0", "web-0")},
		{"no reason", file(", reason: Started", "")},
		{"another type", file("reason:", "type: Error, reason:")},
		{"a namespace that no cluster has", file("namespace: shop", "namespace: Shop")},
		{"a namespace that some cluster has", file("namespace: shop", "namespace: 'shop-{n}-{i}'")},
		{"a message that is a number", file("reason:", "message: 5, reason:")},
		{"no times", file("times: 1", "times: 0")},
		{"times above 32 bits", file("times: 1", "times: 4294967297")},
		{"too many times", file("times: 1", "times: 100001")},
		{"too many writes", file("times: 1", "times: 1001\n    objects: 100", "Pod/web-0", "'Pod/web-{n}'")},
		{"objects that are the same", file("times: 1", "objects: 2")},
		{"another repetition", file("times: 1", "repeat: Update")},
		{"a PATCH of another Event", file("times: 1", "repeat: Patch", "Pod/web-0", "'Pod/web-{i}'")},
		{"a time that is a number", file("times: 1", "every: 10")},
		{"a time of no unit", file("times: 1", "every: '10'")},
		{"a negative time", file("times: 1", "at: -1s")},
		{"a time beyond the end", file("times: 1", "at: 73h")},
		{"repetitions beyond the end", file("times: 1", "at: 72h\n    times: 2\n    every: 1ms")},
		{"repetitions longer than a time can be", file("times: 1", "times: 100000\n    every: 50h")},
		{"groups that are text", file("times: 1", "groups: system:nodes")},
		{"an Event of another form", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "object: {reason: a, regarding: {}}")},
		{"an object of another kind", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "object: {apiVersion: v1, kind: Pod, reason: a}")},
		{"an Event of another API", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "object: {apiVersion: events.k8s.io/v1, kind: Event, reason: a}")},
		{"an Event with a wrong value", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "object: {involvedObject: {name: [a]}}")},
		{"an Event with a wrong number", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "object: {count: many}")},
		{"an Event with a wrong time", file("event: {namespace: shop, about: Pod/web-0, reason: Started}", "object: {lastTimestamp: noon}")},
		{"several mistakes", file("times: 1", "times: 0\n    objects: -1", "Pod/web-0", "web-0")},
	} {
		if err := os.WriteFile("test.yaml", []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "test", "test.yaml")
		if err == nil || err.Error() != "test: 1 file is not valid" {
			t.Errorf("%s: error %v, output\n%s\nwant that 1 file is not valid", test.says, err, out)
		}
		failures, _, _ := strings.Cut(out, "0 tests in 1 file: ")
		got.WriteString(test.says + "\n" + strings.ReplaceAll(failures, "FAILED  ", "    "))
	}
	cli.CompareGolden(t, golden, got.String())
}

func TestBadArgumentsReturnOneError(t *testing.T) {
	t.Chdir("testdata")
	empty := t.TempDir()
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"nothing":                  {nil, "test: name at least one file or directory"},
		"a file that is not there": {[]string{"nothing.yaml"}, "test: nothing.yaml: cannot be read: no such file or directory"},
		"a directory without any":  {[]string{empty}, "test: " + empty + ": has no file, in it or below, whose name ends in eventquota-test.yaml"},
		"no expression":            {[]string{"passing", "--run", "("}, `--run "(": must be a regular expression: missing closing )`},
		"a name of no test":        {[]string{"passing", "--run", "nothing"}, `--run "nothing": matches no test`},
		"another format":           {[]string{"passing", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: must be one of text, json, junit`},
	} {
		t.Run(says, func(t *testing.T) {
			cli.WantError(t, cli.WithRoot(Command()), test.want, append([]string{"test"}, test.args...)...)
		})
	}
}

// TestCommandReturnsWriteErrors checks that a failed write of the report is an error.
func TestCommandReturnsWriteErrors(t *testing.T) {
	for _, format := range []string{"text", "json", "junit"} {
		closed, out := io.Pipe()
		_ = closed.Close()
		cmd := cli.WithRoot(Command())
		cmd.SetOut(out)
		cmd.SetArgs([]string{"test", "testdata/passing", "-o", format})
		if err := cmd.Execute(); err == nil {
			t.Errorf("-o %s to a closed pipe returned no error", format)
		}
	}
}
