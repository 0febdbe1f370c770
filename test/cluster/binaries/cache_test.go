package binaries

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// fakeGo stands for the go command: it notes each call and writes the programs that it
// is asked for, then waits for $GATE if that names a file, and fails if $FAIL is set.
const fakeGo = `#!/bin/sh
echo "CGO_ENABLED=$CGO_ENABLED GOWORK=$GOWORK GOFLAGS=$GOFLAGS $*" >> "$CALLS"
while test -n "$1"; do case "$1" in -o) dir=$2;; ./*) echo built > "$dir$1";; esac; shift; done
while test -n "$GATE" && ! test -e "$GATE"; do sleep 0.05; done
test -z "$FAIL" || { echo "no space left"; exit 1; }
`

// fixture is a builder with a fake go command and an empty cache.
type fixture struct {
	builder
	release
	cache, calls string
	log          *syncBuffer
}

func newFixture(t *testing.T) fixture {
	t.Helper()
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
	write("module/etcd/main.go", "package main\n", 0o600)
	f := fixture{
		release: release{version: "1.36.3", modFile: "go.mod"},
		cache:   filepath.Join(dir, "cache"),
		calls:   filepath.Join(dir, "calls"),
		log:     &syncBuffer{},
	}
	f.builder = builder{
		goCommand: write("go", fakeGo, 0o700),
		moduleDir: filepath.Join(dir, "module"),
		log:       f.log,
		every:     time.Hour,
	}
	t.Setenv("CALLS", f.calls)
	return f
}

// goCalls are the calls of the go command so far.
func (f fixture) goCalls(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(f.calls)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

// holds says which programs a set has.
func (f fixture) holds(t *testing.T, set Set) (programs []string) {
	t.Helper()
	entries, err := os.ReadDir(set.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if content, err := os.ReadFile(set.Path(entry.Name())); string(content) != "built\n" {
			t.Errorf("%s holds %q (%v)", entry.Name(), content, err)
		}
		programs = append(programs, entry.Name())
	}
	return programs
}

func TestEnsureBuildsOnceWithFixedSettings(t *testing.T) {
	f := newFixture(t)
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "somewhere")
	for range 2 {
		set, err := f.ensure(t.Context(), f.release, f.cache, Programs())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Programs(), f.holds(t, set)); diff != "" {
			t.Errorf("programs (-want +got):\n%s", diff)
		}
	}
	calls := f.goCalls(t)
	if len(calls) != 1 {
		t.Fatalf("got %d calls of the go command, want one:\n%s", len(calls), strings.Join(calls, "\n"))
	}
	if !strings.HasPrefix(calls[0], "CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly build -trimpath -gcflags=all=-dwarf=false -buildvcs=false -modfile=go.mod ") ||
		!strings.Contains(calls[0], "-X k8s.io/component-base/version.gitVersion=v1.36.3 ") {
		t.Errorf("called go with %s", calls[0])
	}
}

func TestEnsureBuildsWhatItIsAskedForAndIsNotThere(t *testing.T) {
	f := newFixture(t)
	for _, step := range []struct {
		asked, built, holds []string
	}{
		{
			asked: []string{"etcd", "kube-apiserver"},
			built: []string{"etcd", "kube-apiserver"},
			holds: []string{"etcd", "kube-apiserver"},
		},
		{
			asked: []string{"kube-apiserver", "kubectl"},
			built: []string{"kubectl"},
			holds: []string{"etcd", "kube-apiserver", "kubectl"},
		},
		{
			asked: []string{"etcd"},
			holds: []string{"etcd", "kube-apiserver", "kubectl"},
		},
	} {
		f.log.buffer.Reset()
		set, err := f.ensure(t.Context(), f.release, f.cache, step.asked)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.holds, f.holds(t, set)); diff != "" {
			t.Errorf("programs after %v was asked for (-want +got):\n%s", step.asked, diff)
		}
		said := ""
		if len(step.built) > 0 {
			said = "control plane 1.36.3: building " + strings.Join(step.built, ", ") + "\n"
		}
		if got := f.log.String(); got != said {
			t.Errorf("asked for %v, it logged %q, want %q", step.asked, got, said)
		}
	}
}

func TestEnsureBuildsAgainAfterAChange(t *testing.T) {
	f := newFixture(t)
	before, err := f.ensure(t.Context(), f.release, f.cache, []string{"etcd"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.moduleDir, "etcd", "main.go"), []byte("package main // changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := f.ensure(t.Context(), f.release, f.cache, []string{"etcd"})
	if err != nil {
		t.Fatal(err)
	}
	if before == after {
		t.Errorf("took what was built before the change, in %s", after.dir)
	}
}

func TestEnsureAfterAFailure(t *testing.T) {
	f := newFixture(t)
	t.Setenv("FAIL", "yes")
	_, err := f.ensure(t.Context(), f.release, f.cache, []string{"etcd"})
	if err == nil || !strings.HasPrefix(err.Error(), "build etcd 1.36.3: ") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got error %v, want what the go command wrote", err)
	}
	t.Setenv("FAIL", "")
	if _, err := f.ensure(t.Context(), f.release, f.cache, []string{"etcd"}); err != nil {
		t.Errorf("after a failed build: %v", err)
	}
	if calls := f.goCalls(t); len(calls) != 2 {
		t.Errorf("got %d calls of the go command, want another after the one that failed", len(calls))
	}
}

func TestEnsureAtTheSameTimeBuildsOnce(t *testing.T) {
	f := newFixture(t)
	gate := filepath.Join(t.TempDir(), "gate")
	t.Setenv("GATE", gate)
	var group errgroup.Group
	for range 2 {
		group.Go(func() error {
			_, err := f.ensure(t.Context(), f.release, f.cache, []string{"etcd"})
			return err
		})
	}
	f.log.waitFor(t, "another run is building it")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if calls := f.goCalls(t); len(calls) != 1 {
		t.Errorf("got %d calls of the go command, want one", len(calls))
	}
}

func TestEnsureWaitingForALockEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, f.log)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		f.log.waitFor(t, "another run is building it")
		cancel()
	}()
	if _, err := lock(ctx, path, f.log); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// syncBuffer is a buffer that several goroutines may use at once.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (b *syncBuffer) waitFor(t *testing.T, text string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return strings.Contains(b.String(), text), nil })
	if err != nil {
		t.Errorf("%q never appeared in %q: %v", text, b.String(), err)
	}
}
