package readme

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTestsExist checks that each test named in a page exists. A name may end with *. If a table cell names a file
// first, the tests after it must be in that file.
func TestNamedTestsExist(t *testing.T) {
	there := tests(t)
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+\*?`)
	listed := regexp.MustCompile("`([\\w./-]+_test\\.go)`((?:,? (?:Test|Fuzz)[A-Z]\\w+)*)")
	seen, inFiles := 0, 0
	for _, p := range pages(t) {
		content, err := os.ReadFile(filepath.Join(root, p.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(content), -1) {
			seen++
			beginning, several := strings.CutSuffix(name, "*")
			_, found := there[name]
			for n := range there {
				found = found || several && strings.HasPrefix(n, beginning)
			}
			if !found {
				t.Errorf("%s names %s, which is not there", p.path, name)
			}
		}
		for _, m := range listed.FindAllStringSubmatch(string(content), -1) {
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			if err != nil {
				t.Errorf("%s: %v", p.path, err)
			}
			for _, name := range named.FindAllString(m[2], -1) {
				inFiles++
				if !strings.Contains(string(source), "\nfunc "+name+"(") {
					t.Errorf("%s names %s of %s, which is not there", p.path, name, m[1])
				}
			}
		}
	}
	if seen < 10 || inFiles < 30 {
		t.Errorf("only %d tests and %d of files were seen in the pages", seen, inFiles)
	}
}

// tests returns the tests of the repository by name, each with the directories that have it.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w+)\(`)
	there := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range declared.FindAllStringSubmatch(string(content), -1) {
			there[m[1]] = append(there[m[1]], filepath.ToSlash(dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
