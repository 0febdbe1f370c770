package sink

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/test/cli"
)

func records(n int) (all [][]byte) {
	d := dropDecision("shop")
	d.Request.Object.Annotations = map[string]string{"a": "b\n\u202e"}
	for i := range n {
		all = append(all, encode(nil, name(i), epoch, d.Request, d.Request.Object, &outcome{verdict: "drop", rule: "ClusterEventQuota fair", bucket: "namespace", occurrences: 1}))
	}
	return all
}

// TestFileLineFormat checks the format of a line.
func TestFileLineFormat(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events")
	f, err := NewFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if a := f.Send(t.Context(), records(1)); a.Err != nil {
		t.Fatal(a.Err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cli.CompareGolden(t, "testdata/line.json", string(content))
}

// lines returns the ids of the complete lines of a file, and the number of incomplete ones.
func lines(t *testing.T, path string) (ids []string, broken int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(bytes.NewReader(content)); scan.Scan(); {
		var line struct{ Attributes map[string]any }
		if json.Unmarshal(scan.Bytes(), &line) != nil {
			broken++
			continue
		}
		ids = append(ids, line.Attributes[attrUID].(string))
	}
	return ids, broken
}

// The test moves files as programs that rotate them do.
func TestMovedFileIsReopened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events")
	f, err := NewFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := records(3)
	for i, before := range []func() error{func() error { return nil }, func() error { return os.Rename(path, path+".1") }, func() error { return os.Remove(path) }} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		if a := f.Send(t.Context(), all[i:i+1]); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	for file, want := range map[string]string{path + ".1": name(0), path: name(2)} {
		if ids, broken := lines(t, file); !cmp.Equal(ids, []string{want}) || broken > 0 {
			t.Errorf("%s has %v, want %s", file, ids, want)
		}
	}
}

// Complete lines are not written again, and an incomplete line is ended. A limit on the file size stands in for a full disk.
func TestFullDiskKeepsCountsExact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	f, err := NewFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := records(100)
	var limit, none syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &none); err != nil {
		t.Fatal(err)
	}
	limit = none
	limit.Cur = 10_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	a := f.Send(t.Context(), all)
	b := f.Send(t.Context(), all[a.Accepted:])
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &none); err != nil {
		t.Fatal(err)
	}
	if a.Err == nil || !a.Retry || a.Unknown || a.Accepted == 0 || a.Accepted >= len(all) || b.Err == nil || b.Accepted != 0 {
		t.Fatalf("a full disk: %+v, then %+v", a, b)
	}
	if c := f.Send(t.Context(), all[a.Accepted:]); c.Err != nil {
		t.Fatal(c.Err)
	}
	ids, broken := lines(t, path)
	if broken > 1 || len(ids) != len(all) {
		t.Errorf("%d lines of %d records, and %d that are broken", len(ids), len(all), broken)
	}
	for i, id := range ids {
		if id != name(i) {
			t.Errorf("line %d is of %s", i, id)
		}
	}
}
