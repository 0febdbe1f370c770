package publish

import (
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
)

func TestCompatibilityTables(t *testing.T) {
	root := t.TempDir()
	write(t, root, "test/controlplane/go.mod", "k8s.io/kubernetes v1.37.2\n")
	write(t, root, "test/controlplane/kubernetes-1.35.mod", "k8s.io/kubernetes v1.35.4\n")
	write(t, root, "test/controlplane/kubernetes-1.36.mod", "k8s.io/kubernetes v1.36.3\n")
	c, err := ReadCompatibility(root)
	if err != nil {
		t.Fatal(err)
	}
	monday := func(r Result) Result {
		r.Version, r.Commit, r.Date = "1.37.2", "1111111111111111", "2026-11-23"
		return r
	}
	c.AddKubernetes("1.37", "facts", monday(Result{Failed: []string{"TestReplaced"}}))
	c.AddKubernetes("1.37", "facts", monday(Result{Passed: 27}))
	c.AddKubernetes("1.37", "demo", monday(Result{}))
	c.AddKubernetes("1.37", "validation", Result{Passed: 1, Version: "1.37.2", Commit: "2222222222222222", Date: "2026-11-24"})
	c.AddKubernetes("1.37", "e2e", monday(Result{Passed: 3, Failed: []string{"TestA", "TestB"}}))
	c.AddKubernetes("1.37", "priority-levels", monday(Result{Passed: 3, Skipped: 1}))
	c.AddKubernetes("1.36", "demo", Result{Error: "the control plane does not build", Version: "1.36.2", Commit: "3333333333333333", Date: "2026-11-25"})
	c.Redis["Redis 7.0.15"] = Result{Passed: 90, Commit: "4444444444444444", Date: "2026-11-26"}
	if err := c.Write(root); err != nil {
		t.Fatal(err)
	}
	sheet, err := newCompatibilitySheet(root)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := template.New("").Funcs(sheet.functions()).ParseFS(templates, "templates/compatibility.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := render("<!-- figures: compatibility -->\n<!-- end -->\n<!-- figures: compatibility-redis -->\n<!-- end -->\n", blocks)
	if err != nil {
		t.Fatal(err)
	}
	want := `<!-- figures: compatibility -->
| Kubernetes | demo | facts | Event validation | end-to-end tests | priority levels | version, date and commit |
|---|---|---|---|---|---|---|
| 1.37 | passed | passed: 27 tests | passed: 1 test | **failed**: 2 of 5 tests | passed: 3 of 4 tests, the others skipped | 1.37.2, 2026-11-24, 222222222222; 1.37.2, 2026-11-23, 111111111111 |
| 1.36 | **failed**: the control plane does not build | not run | not run | not run | not run | 1.36.2, 2026-11-25, 333333333333 |
| 1.35 | not run | not run | not run | not run | not run | |

Failed tests on Kubernetes 1.37: TestA, TestB.
<!-- end -->
<!-- figures: compatibility-redis -->
| server | tests | date and commit |
|---|---|---|
| Redis 7.0.15 | passed: 90 tests | 2026-11-26, 444444444444 |
<!-- end -->
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

// TestTestedFilesAreCommitted changes pages and records, which no tested part reads, and then a test.
func TestTestedFilesAreCommitted(t *testing.T) {
	dir, commit := repository(t)
	write(t, dir, "docs/compatibility.json", "{}")
	write(t, dir, "README.md", "changed")
	if got, err := TestedCommit(t.Context(), dir); err != nil || got != commit {
		t.Errorf("changed pages: got commit %q, error %v; want %q", got, err, commit)
	}
	write(t, dir, "policy/a_test.go", "changed")
	if err := RequireTested(t.Context(), dir, commit); err == nil || !strings.Contains(err.Error(), "policy/a_test.go") {
		t.Errorf("a changed test: got error %v, want one about policy/a_test.go", err)
	}
}
