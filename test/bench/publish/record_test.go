package publish

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/test/userenv"
)

// repository creates a git repository with some files, and returns its directory and its only commit.
func repository(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"policy/a.go", "policy/a_test.go", "store/a.go", "docs/a.md", "test/attacks/attacks_test.go"} {
		write(t, dir, name, "as committed")
	}
	userenv.HideGit(t.Setenv)
	run(t, dir, "init", "-q")
	run(t, dir, "add", ".")
	run(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "all")
	return dir, strings.TrimSpace(run(t, dir, "rev-parse", "HEAD"))
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStale(t *testing.T) {
	for name, test := range map[string]struct {
		changed string
		want    []string // groups
	}{
		"nothing":                     {"", nil},
		"a page":                      {"docs/a.md", nil},
		"a test":                      {"policy/a_test.go", nil},
		"the templates of figures":    {"test/bench/publish/templates/a.tmpl", nil},
		"a package of several groups": {"policy/a.go", []string{"policies", "attacks"}},
		"a new file":                  {"store/b.go", []string{"attacks"}},
		"the test that measures":      {"test/attacks/attacks_test.go", []string{"attacks"}},
	} {
		dir, commit := repository(t)
		if test.changed != "" {
			write(t, dir, test.changed, "changed")
		}
		r := Record{Origin: Origin{Commit: commit}, Figures: map[string]float64{"policy_x": 1, "attack_x": 1}}
		stale, err := r.Stale(t.Context(), dir)
		if err != nil || len(stale) != len(test.want) {
			t.Errorf("change of %s: got %q (%v), want groups %q", name, stale, err, test.want)
			continue
		}
		for i, group := range test.want {
			if !strings.Contains(stale[i], "figures of "+group) || !strings.Contains(stale[i], test.changed) {
				t.Errorf("change of %s: got %q, want it to name %s and %s", name, stale[i], group, test.changed)
			}
		}
	}
}

func TestStaleWithoutCommit(t *testing.T) {
	dir, _ := repository(t)
	for name, r := range map[string]struct{ dir, commit string }{
		"unknown commit": {dir, strings.Repeat("1", 40)},
		"no repository":  {t.TempDir(), strings.Repeat("1", 40)},
	} {
		stale, err := Record{Origin: Origin{Commit: r.commit}, Figures: map[string]float64{"policy_x": 1}}.Stale(t.Context(), r.dir)
		if err == nil {
			t.Errorf("%s: got %q and no error", name, stale)
		}
	}
	if o := CurrentOrigin(t.Context(), t.TempDir(), ""); o.Commit != "" {
		t.Errorf("no repository: got commit %q, want none", o.Commit)
	}
}

func TestOriginHasChangedFiles(t *testing.T) {
	dir, commit := repository(t)
	write(t, dir, "policy/a.go", "changed before the measurement")
	o := CurrentOrigin(t.Context(), dir, "")
	write(t, dir, "policy/a.go", "as committed")
	write(t, dir, "store/b.go", "created during the measurement")
	o.UpdateChanged(t.Context(), dir)
	if diff := cmp.Diff([]string{"policy/a.go", "store/b.go"}, o.Changed); diff != "" || o.Commit != commit {
		t.Errorf("commit %q, want %q; changed files (-want +got):\n%s", o.Commit, commit, diff)
	}
}

func TestRecordHasOneOrigin(t *testing.T) {
	here, faster := Machine{Cores: 2}, Machine{Cores: 8}
	old := map[string]float64{"api_a": 1, "demo_sent": 2}
	for name, test := range map[string]struct {
		from   Origin
		figure string
		want   map[string]float64
		err    string
	}{
		"of the same commit and machine": {Origin{Commit: "c1", Machine: here}, "api_b", map[string]float64{"api_a": 1, "demo_sent": 2, "api_b": 3}, ""},
		"of another commit":              {Origin{Commit: "c2", Machine: here}, "api_b", map[string]float64{"api_b": 3}, ""},
		"of another machine":             {Origin{Commit: "c1", Machine: faster}, "api_b", map[string]float64{"api_b": 3}, ""},
		"of no commit":                   {Origin{Machine: here}, "api_b", old, "reports no commit"},
		"of a changed tree":              {Origin{Commit: "c1", Machine: here, Changed: []string{"policy/a.go", "b.go"}}, "api_b", old, "policy/a.go and 1 more"},
		"of no group":                    {Origin{Commit: "c1", Machine: here}, "other_b", old, "other_b belongs to no group"},
	} {
		r := Record{Origin: Origin{Commit: "c1", Machine: here}, Figures: map[string]float64{"api_a": 1, "demo_sent": 2}}
		path := filepath.Join(t.TempDir(), "bench.json")
		if err := WriteJSON(path, map[string]float64{test.figure: 3}); err != nil {
			t.Fatal(err)
		}
		if err := WriteJSON(OriginFile(path), test.from); err != nil {
			t.Fatal(err)
		}
		err := r.AddFigures(path)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("figures %s: got error %v, want %q", name, err, test.err)
		}
		if diff := cmp.Diff(test.want, r.Figures); diff != "" || err == nil && r.Commit != test.from.Commit {
			t.Errorf("figures %s: commit %s, figures (-want +got):\n%s", name, r.Commit, diff)
		}
	}
}

func TestAddDemo(t *testing.T) {
	r := Record{Figures: map[string]float64{}}
	err := r.AddDemo("spec:\n  burst: 20\nEvents stored:  1 with the webhook\n\nsent: 27900\nwide_bystander_with_p99_ms: 10.5\nchanging_stored_with: 1\ncount_error: 0\n")
	want := map[string]float64{"demo_sent": 27900, "demo_wide_bystander_with_p99_ms": 10.5, "demo_changing_stored_with": 1, "demo_count_error": 0}
	if diff := cmp.Diff(want, r.Figures); err != nil || diff != "" {
		t.Errorf("got error %v; figures (-want +got):\n%s", err, diff)
	}
	if err := r.AddDemo("demo: interrupted\n"); err == nil {
		t.Error("AddDemo accepted output without figures")
	}
}

// TestGroupsCoverAllPackages compares the paths of groups with the packages that go list reports for the measured programs.
func TestGroupsCoverAllPackages(t *testing.T) {
	const module = "github.com/eventquota/eventquota/"
	for _, list := range [][]string{
		{"api_x", "./cmd/webhook", "./test/bench"},
		{"simulate_x", "./cmd/webhook"},
		{"attack_x", "./cmd/webhook"},
		{"attack_x", "-test", "./test/attacks"},
		{"demo_x", "./cmd/webhook", "./test/demo"},
	} {
		figure, programs := list[0], list[1:]
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, programs...)...)
		cmd.Dir = "../../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for line := range strings.Lines(string(out)) {
			dir, inModule := strings.CutPrefix(strings.TrimSpace(line), module)
			dir, _, _ = strings.Cut(dir, " ") // the variant for a test
			if !inModule || dir == "test/bench/publish" || strings.HasSuffix(dir, ".test") {
				continue
			}
			seen++
			if !covers(groupOf(figure).paths, dir) {
				t.Errorf("%s is part of what %s measures, but not of the paths of group %s", dir, figure, groupOf(figure).name)
			}
		}
		if seen < 5 {
			t.Errorf("%s: go list reported only %d packages, want at least 5", figure, seen)
		}
	}
}

// covers reports whether a package directory is within the paths of a group.
func covers(paths []string, dir string) bool {
	for _, p := range paths {
		p = strings.TrimSuffix(p, "/*.go")
		if dir == p || strings.HasPrefix(dir, p+"/") {
			return true
		}
	}
	return false
}
