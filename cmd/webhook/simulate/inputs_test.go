package simulate

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// TestInputsAreMerged reads a directory in the layout of oc adm must-gather, with a rotated audit log whose parts overlap. The
// report must equal that of the whole log.
func TestInputsAreMerged(t *testing.T) {
	log, err := os.ReadFile("testdata/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(log), "\n")
	half := len(lines) / 2
	dir := t.TempDir()
	write := func(name string, content []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("audit_logs/audit-2026-11-01.log.gz", gzipped(t, strings.Join(lines[:half+2], "")))
	write("audit_logs/audit.log", []byte(strings.Join(lines[half:], "")))
	write("namespaces/shop/pods.yaml", []byte("apiVersion: v1\nkind: PodList\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: web-0}}\n"))
	write("version", []byte("4.16.1\n"))
	t.Chdir("testdata")
	var outs []string
	for _, input := range []string{"audit.log", dir} {
		out, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "simulate", input, "--policies", "policies.yaml")
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	whole, parts := outs[0], outs[1]
	head, _, _ := strings.Cut(strings.ReplaceAll(parts, dir, "DIR"), "\n\n")
	want := `2 files: 75 entries, 71 writes from 2026-11-01T12:00:00Z to 2026-11-01T12:01:30Z
  DIR/audit_logs/audit-2026-11-01.log.gz (audit log of the API server; JSON lines; gzip)
  DIR/audit_logs/audit.log (audit log of the API server; JSON lines)
  2 other files have no Events
  2 skipped: duplicates
  1 skipped: requests that do not write Events
  cannot be read: DIR/audit_logs/audit-2026-11-01.log.gz:4: it is not JSON from byte 2 on`
	if head != want {
		t.Errorf("input\n%s\nwant\n%s", head, want)
	}
	after := func(out string) string {
		_, rest, _ := strings.Cut(out, "\n\n")
		return rest
	}
	if after(parts) != after(whole) {
		t.Errorf("report of the directory:\n%s\nwant that of the whole log:\n%s", parts, whole)
	}
}

func gzipped(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
