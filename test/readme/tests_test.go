package readme

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryTestThatIsNamedIsThere(t *testing.T) {
	there := tests(t)
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+\*?`)
	seen := 0
	for _, p := range pages(t) {
		content, err := os.ReadFile(filepath.Join(root, p.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(content), -1) {
			seen++
			found := false
			beginning, several := strings.CutSuffix(name, "*")
			for n := range there {
				found = found || n == name || several && strings.HasPrefix(n, beginning)
			}
			if !found {
				t.Errorf("%s names %s, which is not there", p.path, name)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d tests were seen in the pages", seen)
	}
}

// TestEachTestIsInTheFileThatIsNamed holds what stands in a cell of a table behind the name of a file: tests of that
// file.
func TestEachTestIsInTheFileThatIsNamed(t *testing.T) {
	listed := regexp.MustCompile("`([\\w./-]+_test\\.go)`((?:,? (?:Test|Fuzz)[A-Z]\\w+)*)")
	seen := 0
	for _, p := range pages(t) {
		content, err := os.ReadFile(filepath.Join(root, p.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listed.FindAllStringSubmatch(string(content), -1) {
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			if err != nil {
				t.Errorf("%s: %v", p.path, err)
				continue
			}
			for _, name := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
				seen++
				if !strings.Contains(string(source), "\nfunc "+name+"(") {
					t.Errorf("%s names %s of %s, which is not there", p.path, name, m[1])
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d tests of files were seen in the pages", seen)
	}
}

// tests are the tests of the repository, by name, each with the directories that have it.
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
