package policytest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDiscover(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{
		"a/eventquota-test.yaml", "a/ci.eventquota-test.yml", "a/b/c/x-eventquota-test.yaml",
		"a/.git/eventquota-test.yaml", "a/policies.yaml", "a/eventquota-test.json", "a/kyverno-test.yaml", "other.yaml",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", "link"); err != nil {
		t.Fatal(err)
	}
	below := []string{"b/c/x-eventquota-test.yaml", "ci.eventquota-test.yml", "eventquota-test.yaml"}
	in := func(dir string) (files []string) {
		for _, name := range below {
			files = append(files, filepath.Join(dir, name))
		}
		return files
	}
	for says, test := range map[string]struct{ paths, want []string }{
		"a directory, with files below":        {[]string{"a"}, in("a")},
		"a link to a directory":                {[]string{"link"}, in("link")},
		"the same file by several paths":       {[]string{"a/b", "a/", "./a"}, in("a")},
		"a file of any name":                   {[]string{"other.yaml"}, []string{"other.yaml"}},
		"a hidden directory, by its name":      {[]string{"a/.git"}, []string{"a/.git/eventquota-test.yaml"}},
		"the working directory, without links": {[]string{"."}, in("a")},
	} {
		t.Run(says, func(t *testing.T) {
			got, err := discover(test.paths)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("files %v, error %v, want %v", got, err, test.want)
			}
		})
	}
}
