// Package publish puts measured figures into the documentation. docs/bench.json has the figures, the commit that they were
// measured at, and the machine. The pages have blocks between <!-- figures: NAME --> and <!-- end -->, which the template of
// that name in templates/ renders: no figure is typed by hand.
//
// To publish a figure, give its name a prefix of a group (groups.go), and add a row to a template. A template fails, and
// names the figure, if docs/bench.json lacks it. Rows for figures that are not measured yet stand within {{if any "PREFIX"}}.
package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// File is where the record is kept, from the root of the repository.
const File = "docs/bench.json"

// Record is the content of File.
type Record struct {
	Origin

	Figures map[string]float64 `json:"figures"`
}

// Origin says where figures come from.
type Origin struct {
	// Commit is a full hash, or empty if it is not known.
	Commit  string  `json:"commit"`
	Machine Machine `json:"machine"`
	// Changed are the files that differed from the commit when the figures were measured. A Record has none.
	Changed []string `json:"changed,omitempty"`
}

// RequireCommit fails where figures are not those of a commit.
func (o Origin) RequireCommit() error {
	switch {
	case o.Commit == "":
		return errors.New("git knows no commit of what is measured")
	case len(o.Changed) > 0:
		return fmt.Errorf("what is measured differs from commit %.12s in %s: commit first, then measure", o.Commit, summarizeFiles(o.Changed))
	}
	return nil
}

// ReadRecord reads the record of a repository. It is empty if there is no File.
func ReadRecord(root string) (Record, error) {
	var r Record
	err := readJSON(filepath.Join(root, File), &r)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	return r, err
}

// Write writes the record of a repository.
func (r Record) Write(root string) error { return WriteJSON(filepath.Join(root, File), r) }

// AddFigures adds the figures of a file that make bench wrote. It drops those of another commit or machine, as pages speak of
// one. It refuses figures of a changed tree.
func (r *Record) AddFigures(path string) error {
	var measured map[string]float64
	var from Origin
	if err := errors.Join(readJSON(path, &measured), readJSON(OriginFile(path), &from)); err != nil {
		return err
	}
	if err := from.RequireCommit(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if from.Commit != r.Commit || from.Machine != r.Machine {
		r.Origin, r.Figures = from, map[string]float64{}
	}
	return r.add(measured, "")
}

// demoLine is one figure in the output of make demo.
var demoLine = regexp.MustCompile(`(?m)^([a-z0-9_]+): (-?[0-9.]+)$`)

// AddDemo adds the figures in the output of make demo, with the prefix demo_.
func (r *Record) AddDemo(output string) error {
	measured := map[string]float64{}
	for _, line := range demoLine.FindAllStringSubmatch(output, -1) {
		value, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return fmt.Errorf("figure %s of the demo: %w", line[1], err)
		}
		measured[line[1]] = value
	}
	if len(measured) == 0 {
		return errors.New("the output of the demo has no line such as \"sent: 27900\"")
	}
	return r.add(measured, demoPrefix)
}

// add adds figures under a prefix. Each must belong to a group, so that it is known what outdates it.
func (r *Record) add(measured map[string]float64, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		if groupOf(prefix+name) == nil {
			return fmt.Errorf("figure %s%s belongs to no group of test/bench/publish/groups.go", prefix, name)
		}
		r.Figures[prefix+name] = measured[name]
	}
	return nil
}

// OriginFile is the file beside a file of figures that has their Origin.
func OriginFile(figures string) string { return strings.TrimSuffix(figures, ".json") + ".origin.json" }

// WriteJSON writes a value into a file, names in order. It makes the directory if there is none.
func WriteJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// summarizeFiles names one of several files, and how many others there are.
func summarizeFiles(files []string) string {
	if len(files) == 1 {
		return files[0]
	}
	return fmt.Sprintf("%s and %d more", files[0], len(files)-1)
}
