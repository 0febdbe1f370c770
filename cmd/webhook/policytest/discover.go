package policytest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// fileSuffix is the end of the names of test files, before .yaml or .yml.
const fileSuffix = "eventquota-test"

// discover returns the named files and, for each directory, the test files in it and below. It skips hidden directories and
// links to directories.
func discover(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, document.ReadError(path, err)
		}
		if !info.IsDir() {
			files = append(files, filepath.Clean(path))
			continue
		}
		before := len(files)
		err = fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return document.ReadError(filepath.Join(path, name), err)
			case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case !d.IsDir() && isTestFile(d.Name()):
				files = append(files, filepath.Join(path, name))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: has no file, in it or below, whose name ends in %s.yaml", path, fileSuffix)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func isTestFile(name string) bool {
	base, ok := strings.CutSuffix(name, ".yaml")
	if !ok {
		base, ok = strings.CutSuffix(name, ".yml")
	}
	return ok && strings.HasSuffix(base, fileSuffix)
}
