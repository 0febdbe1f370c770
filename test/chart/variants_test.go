package chart

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var variantsDir = flag.String("variants", "", "directory to write each rendered set of values into, as one file; empty for none")

// TestVariantsRender renders all sets of values, hooks included. `make verify-kube-lint` checks the files.
func TestVariantsRender(t *testing.T) {
	dir := *variantsDir
	if dir == "" {
		dir = t.TempDir()
	}
	for says, values := range valueSets() {
		r := mustRender(t, values)
		var content bytes.Buffer
		for _, o := range slices.Concat(r.Objects, r.Hooks) {
			object, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			content.WriteString("---\n")
			content.Write(object)
		}
		file := filepath.Join(dir, "chart-"+strings.ReplaceAll(says, " ", "-")+".yaml")
		if err := os.WriteFile(file, content.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
