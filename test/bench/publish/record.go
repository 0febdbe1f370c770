// Package publish puts measured figures into the documentation. docs/bench.json has the figures, and the commit and machine that they
// were measured with. Pages have blocks between <!-- figures: NAME --> and <!-- end -->, which are rendered from the template NAME in
// templates/. No figure is typed by hand. The same renders the results of tests on several versions, which are in docs/compatibility.json.
//
// To publish a figure, give its name the prefix of a group (groups.go), and add a row to a template. If docs/bench.json lacks the figure,
// rendering fails with its name. Put rows for figures that are not measured yet into {{if any "PREFIX"}}.
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

// File is the path of the record, relative to the root of the repository.
const File = "docs/bench.json"

// Record is the content of File: figures by name, and their origin.
type Record struct {
	Origin

	Figures map[string]float64 `json:"figures"`
}

// Origin is the commit and machine with which figures were measured.
type Origin struct {
	// Commit is a full hash. It is empty if it is unknown.
	Commit  string  `json:"commit"`
	Machine Machine `json:"machine"`
	// Changed lists the measured files that differed from the commit, sorted. It is empty in a Record.
	Changed []string `json:"changed,omitempty"`
}

// RequireCommit returns an error unless the figures were measured with the exact files of a commit.
func (o Origin) RequireCommit() error {
	switch {
	case o.Commit == "":
		return errors.New("git reports no commit for the measured files")
	case len(o.Changed) > 0:
		return fmt.Errorf("the measured files differ from commit %.12s in %s: commit, then measure again", o.Commit, summarizeFiles(o.Changed))
	}
	return nil
}

// ReadRecord reads the record of a repository. Without File, the record is empty.
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

// Write writes the record to File in a repository.
func (r Record) Write(root string) error { return WriteJSON(filepath.Join(root, File), r) }

// AddFigures adds the figures of a file that make bench wrote. If they come from another commit or machine than the record, it removes
// the record's figures first. It returns an error if files differed from the commit.
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

// demoLine matches a figure in the output of make demo.
var demoLine = regexp.MustCompile(`(?m)^([a-z0-9_]+): (-?[0-9.]+)$`)

// AddDemo adds the figures in the output of make demo, with the prefix demo_. It returns an error if the output has none.
func (r *Record) AddDemo(output string) error {
	measured := map[string]float64{}
	for _, line := range demoLine.FindAllStringSubmatch(output, -1) {
		value, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return fmt.Errorf("demo figure %s: %w", line[1], err)
		}
		measured[line[1]] = value
	}
	if len(measured) == 0 {
		return errors.New("the output of the demo has no figures, such as \"sent: 27900\"")
	}
	return r.add(measured, demoPrefix)
}

// add adds figures with a prefix before their names. Each must belong to a group, which decides when the figure is out of date.
func (r *Record) add(measured map[string]float64, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		if groupOf(prefix+name) == nil {
			return fmt.Errorf("figure %s%s belongs to no group in test/bench/publish/groups.go", prefix, name)
		}
		r.Figures[prefix+name] = measured[name]
	}
	return nil
}

// OriginFile returns the path of the file with the Origin of a file of figures.
func OriginFile(figures string) string { return strings.TrimSuffix(figures, ".json") + ".origin.json" }

// WriteJSON writes a value to a file as indented JSON. It creates the directory if needed.
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

// summarizeFiles names the first of one or more files, and the number of the others.
func summarizeFiles(files []string) string {
	if len(files) == 1 {
		return files[0]
	}
	return fmt.Sprintf("%s and %d more", files[0], len(files)-1)
}
