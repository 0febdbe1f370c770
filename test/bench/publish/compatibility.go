package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// CompatibilityFile is the path of the results of make compatibility, relative to the root of the repository.
const CompatibilityFile = "docs/compatibility.json"

// Compatibility is the content of CompatibilityFile: the last result of each part of the tests.
type Compatibility struct {
	// Kubernetes has the results by minor version, such as 1.37, and by part.
	Kubernetes map[string]map[string]Result `json:"kubernetes"`
	// Redis has the results of the tests of the store by server, such as Redis 7.0.15.
	Redis map[string]Result `json:"redis"`
}

// Result is the result of one part of the tests.
type Result struct {
	// Version is the version of Kubernetes, such as 1.37.2. It is empty for a test of Redis.
	Version string `json:"version,omitempty"`
	Commit  string `json:"commit"` // a full hash
	Date    string `json:"date"`   // such as 2026-11-27
	// Passed and Skipped count tests, where a test with subtests does not count itself. Failed has the names of failed ones.
	Passed  int      `json:"passed,omitempty"`
	Skipped int      `json:"skipped,omitempty"`
	Failed  []string `json:"failed,omitempty"`
	// Error says why the part failed without a failed test. Otherwise it is empty.
	Error string `json:"error,omitempty"`
}

// OK reports whether the part passed.
func (r Result) OK() bool { return len(r.Failed) == 0 && r.Error == "" }

// String is the text of a table cell.
func (r Result) String() string {
	tests := r.Passed + r.Skipped + len(r.Failed)
	switch {
	case r.Error != "":
		return "**failed**: " + r.Error
	case len(r.Failed) > 0:
		return fmt.Sprintf("**failed**: %d of %s", len(r.Failed), countTests(tests))
	case tests == 0:
		return "passed" // the demo
	case r.Skipped > 0:
		return fmt.Sprintf("passed: %d of %s, the others skipped", r.Passed, countTests(tests))
	}
	return "passed: " + countTests(tests)
}

func countTests(n int) string {
	if n == 1 {
		return "1 test"
	}
	return fmt.Sprintf("%d tests", n)
}

// ReadCompatibility reads the results of a repository. Without CompatibilityFile, there are none.
func ReadCompatibility(root string) (Compatibility, error) {
	c := Compatibility{Kubernetes: map[string]map[string]Result{}, Redis: map[string]Result{}}
	err := readJSON(filepath.Join(root, CompatibilityFile), &c)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return c, err
}

// AddKubernetes adds the result of a part on a minor version, in place of the one before.
func (c Compatibility) AddKubernetes(minor, part string, r Result) {
	if c.Kubernetes[minor] == nil {
		c.Kubernetes[minor] = map[string]Result{}
	}
	c.Kubernetes[minor][part] = r
}

// Write writes the results to CompatibilityFile in a repository.
func (c Compatibility) Write(root string) error {
	return WriteJSON(filepath.Join(root, CompatibilityFile), c)
}

// TestedCommit returns the commit that is checked out in root. It returns an error if files that tests can depend on differ from it.
func TestedCommit(ctx context.Context, root string) (string, error) {
	commit, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	commit = strings.TrimSpace(commit)
	return commit, RequireTested(ctx, root, commit)
}

// RequireTested returns an error if files that tests can depend on differ from a commit.
func RequireTested(ctx context.Context, root, commit string) error {
	changed, err := changedFiles(ctx, root, commit, ".", ":!docs", ":!*.md")
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("the tested files differ from commit %.12s in %s: commit, then test again", commit, summarizeFiles(changed))
	}
	return nil
}

// compatibilitySheet has the results for templates.
type compatibilitySheet struct {
	results  Compatibility
	versions []string // the minor versions that can be built, the newest first
}

func newCompatibilitySheet(root string) (compatibilitySheet, error) {
	results, err := ReadCompatibility(root)
	if err != nil {
		return compatibilitySheet{}, err
	}
	s := compatibilitySheet{results: results}
	versions, err := binaries.Versions(root)
	for _, v := range versions {
		s.versions = append(s.versions, binaries.Minor(v))
	}
	return s, err
}

// functions returns the template functions for results.
func (s compatibilitySheet) functions() map[string]any {
	return map[string]any{
		"kubernetes": func() []string { return s.versions },
		"result": func(version, part string) string {
			if r, ok := s.results.Kubernetes[version][part]; ok {
				return r.String()
			}
			return "not run"
		},
		"origins": s.origins,
		"failed":  s.failed,
		"redis":   func() map[string]Result { return s.results.Redis },
		"short":   func(commit string) string { return fmt.Sprintf("%.12s", commit) },
	}
}

// origins lists the exact versions, dates and commits of the results of a minor version, the newest first.
func (s compatibilitySheet) origins(version string) string {
	results := slices.SortedFunc(maps.Values(s.results.Kubernetes[version]), func(a, b Result) int {
		return cmp.Or(cmp.Compare(b.Date, a.Date), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Commit, b.Commit))
	})
	var all []string
	for _, r := range results {
		all = append(all, fmt.Sprintf("%s, %s, %.12s", r.Version, r.Date, r.Commit))
	}
	return strings.Join(slices.Compact(all), "; ")
}

// failed returns a line for each version with failed tests.
func (s compatibilitySheet) failed() (all []string) {
	for _, version := range s.versions {
		var failed []string
		for _, r := range s.results.Kubernetes[version] {
			failed = append(failed, r.Failed...)
		}
		if len(failed) > 0 {
			slices.Sort(failed)
			all = append(all, version+": "+strings.Join(failed, ", "))
		}
	}
	return all
}
