package lint

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/cli"
)

// TestPreCommitHookRunsLint compares the hook definition with the name that go install gives the program and with the flags of
// lint. It does not run pre-commit itself.
func TestPreCommitHookRunsLint(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	var hooks []struct {
		ID, Language, Entry, Files string
		Types                      []string
	}
	if err := yaml.Unmarshal([]byte(cli.ReadFile(t, filepath.Join(root, ".pre-commit-hooks.yaml"))), &hooks); err != nil {
		t.Fatal(err)
	}
	if len(hooks) != 1 || hooks[0].ID != "eventquota-lint" || hooks[0].Language != "golang" || strings.Join(hooks[0].Types, "") != "yaml" {
		t.Fatalf("hooks %+v, want one Go hook eventquota-lint for YAML", hooks)
	}
	entry := strings.Fields(hooks[0].Entry)
	program := filepath.Join(root, "cmd", entry[0], "main.go")
	if source := cli.ReadFile(t, program); !strings.Contains(source, "\npackage main\n") {
		t.Errorf("%s is not of package main", program)
	}
	files := regexp.MustCompile(hooks[0].Files)
	if !files.MatchString("policies/a.yaml") || !files.MatchString("a.yml") || files.MatchString("a.yaml.md") {
		t.Errorf("files match %s, want .yaml and .yml files only", hooks[0].Files)
	}
	for _, dir := range []string{"examples", "base"} { // examples has only policies, base mostly other objects
		paths, err := filepath.Glob(filepath.Join(root, "manifests", dir, "*.yaml"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has %d files, error %v", dir, len(paths), err)
		}
		if out, errs, err := lint(t, "", append(entry[2:], paths...)...); entry[1] != "lint" || err != nil || errs != "" {
			t.Errorf("%s: entry %q fails with %v, output %q, standard error %q", dir, entry, err, out, errs)
		}
	}
}
