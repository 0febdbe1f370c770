// Package walk follows one Event through the packages, by recording the functions called.
package walk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/test/walk/record"
)

// TestCreatePath rewrites every function of this module to record its calls, and lets a webhook decide a CREATE with
// each store. It compares the recorded files with docs/architecture.md and bounds their number. No file may be called
// from a package that comes after its own.
func TestCreatePath(t *testing.T) {
	steps := recordSteps(t)
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := parseRows(t, string(page))
	var order []string
	for _, r := range rows {
		order = append(order, path.Dir(r.file))
	}
	for store, most := range map[string]int{"Memory": 20, "Redis": 31} {
		var files, listed []string
		for _, r := range rows {
			if r.store == "" || r.store == store {
				listed = append(listed, r.file)
			}
		}
		for _, s := range steps[store] {
			if !slices.Contains(files, s.To) {
				files = append(files, s.To)
			}
			from, to := slices.Index(order, path.Dir(s.From)), slices.Index(order, path.Dir(s.To))
			if s.From != "" && to < from {
				t.Errorf("%s: %s calls %s, whose package comes before", store, s.From, s.To)
			}
		}
		if len(files) > most || len(files) == 0 {
			t.Errorf("%s: a CREATE passes %d files, want at most %d", store, len(files), most)
		}
		slices.Sort(files)
		slices.Sort(listed)
		if diff := cmp.Diff(files, listed); diff != "" {
			t.Errorf("%s: docs/architecture.md lists other files than a CREATE passes (-recorded +listed):\n%s", store, diff)
		}
	}
}

// fileRow is a row of the page: a file and the store whose calls pass it, or "" for both stores.
type fileRow struct{ file, store string }

// parseRows returns the rows of the table, in page order.
func parseRows(t *testing.T, page string) (rows []fileRow) {
	t.Helper()
	_, walk, ok := strings.Cut(page, "\n## One Event, by file\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section \"One Event, by file\"")
	}
	for line := range strings.Lines(walk) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.Contains(cells[1], "`") {
			rows = append(rows, fileRow{strings.Trim(cells[1], " `"), strings.TrimSpace(cells[3])})
		}
	}
	return rows
}

// recordSteps runs a test of serve in which every function of this module records its calls.
func recordSteps(t *testing.T) map[string][]record.Step {
	t.Helper()
	dir := t.TempDir()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}} {{end}}{{end}}{{end}}`, "./cmd/webhook/serve")
	list.Dir = "../.."
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{}
	for i, file := range strings.Fields(string(files)) {
		if strings.HasPrefix(filepath.Base(file), "zz_generated") {
			continue // its calls are not recorded
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		replaced[file] = filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(replaced[file], instrument(t, file, source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile, stepsFile := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "steps.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	// Dependencies are compiled with the flags of the Makefile. Functions of this module are not inlined, because
	// their files would be unknown.
	run := exec.CommandContext(t.Context(), "go", "test", "-overlay="+overlayFile, "-count=1", "-gcflags=all=-dwarf=false", "-gcflags=github.com/eventquota/eventquota/...=-dwarf=false -l", "-run=^TestCreateOnEachStore$", "./cmd/webhook/serve")
	run.Dir, run.Env = "../..", append(os.Environ(), "EVENTQUOTA_WALK="+stepsFile, "CGO_ENABLED=0")
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	content, err := os.ReadFile(stepsFile)
	if err != nil {
		t.Fatal(err)
	}
	var steps map[string][]record.Step
	if err := json.Unmarshal(content, &steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

// instrument returns source with a call at the beginning of each function. Line numbers do not change.
func instrument(t *testing.T, name string, source []byte) []byte {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch f := n.(type) {
		case *ast.FuncDecl:
			body = f.Body
		case *ast.FuncLit:
			body = f.Body
		}
		if body != nil {
			at[fset.Position(body.Lbrace).Offset+1] = " walked.Enter(); "
		}
		return true
	})
	if len(at) > 0 {
		at[fset.Position(file.Name.End()).Offset] = `; import walked "github.com/eventquota/eventquota/test/walk/record"`
	}
	var out bytes.Buffer
	for i, b := range source {
		if insert, ok := at[i]; ok {
			out.WriteString(insert)
		}
		out.WriteByte(b)
	}
	return out.Bytes()
}
