package binaries

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeGo replaces the go command: it logs each call and writes the requested programs. It then fails if $FAIL is set.
const fakeGo = `#!/bin/sh
echo "CGO_ENABLED=$CGO_ENABLED GOWORK=$GOWORK GOFLAGS=$GOFLAGS $*" >> "$CALLS"
while test -n "$1"; do case "$1" in -o) dir=$2;; ./*) echo built > "$dir$1";; esac; shift; done
test -z "$FAIL" || { echo "no space left"; exit 1; }
`

// TestEnsureBuildsMissingPrograms requests programs from one cache repeatedly.
func TestEnsureBuildsMissingPrograms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("module/go.mod", "require k8s.io/kubernetes v1.36.3\n", 0o600)
	write("module/go.sum", "", 0o600)
	calls := filepath.Join(dir, "calls")
	b := builder{goCommand: write("go", fakeGo, 0o700), moduleDir: filepath.Join(dir, "module"), log: io.Discard, progressInterval: time.Hour}
	t.Setenv("CALLS", calls)
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "somewhere")
	const settings = "CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly build -trimpath -gcflags=all=-dwarf=false -buildvcs=false -modfile=go.mod "
	for _, step := range []struct {
		name, main, fail        string
		requested, built, cache string
	}{
		{"a failed build leaves nothing", "package main", "yes", "etcd", "etcd", ""},
		{"a failed build is retried", "package main", "", "etcd kube-apiserver", "etcd kube-apiserver", "etcd kube-apiserver"},
		{"a missing program is built", "package main", "", "kube-apiserver kubectl", "kubectl", "etcd kube-apiserver kubectl"},
		{"a cached program is not built again", "package main", "", "etcd", "", "etcd kube-apiserver kubectl"},
		{"after a change, all programs are built again", "package main // changed", "", "etcd", "etcd", "etcd"},
	} {
		t.Run(step.name, func(t *testing.T) {
			write("calls", "", 0o600)
			write("module/etcd/main.go", step.main, 0o600)
			t.Setenv("FAIL", step.fail)
			set, err := b.ensure(t.Context(), release{version: "1.36.3", modFile: "go.mod"}, filepath.Join(dir, "cache"), strings.Fields(step.requested))
			if step.fail != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "build etcd 1.36.3: ") || !strings.Contains(err.Error(), "no space left") {
					t.Errorf("got error %v, want the output of the go command", err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			called, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			_, built, _ := strings.Cut(string(called), ".unfinished/ ")
			if got := strings.TrimSpace(strings.ReplaceAll(built, "./", "")); got != step.built {
				t.Errorf("built %q, want %q", got, step.built)
			}
			if version := "-X k8s.io/component-base/version.gitVersion=v1.36.3 "; step.built != "" &&
				(!strings.HasPrefix(string(called), settings) || !strings.Contains(string(called), version)) {
				t.Errorf("called go with the wrong settings: %s", called)
			}
			var programs []string
			entries, _ := os.ReadDir(set.dir) // does not exist after a failure
			for _, entry := range entries {
				programs = append(programs, entry.Name())
			}
			if diff := cmp.Diff(step.cache, strings.Join(programs, " ")); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
		})
	}
}
