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

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// fakeGo stands for the go command: it notes each call and writes the output file that
// it is asked for, then waits for $GATE if that names a file, and fails if $FAIL is set.
const fakeGo = `#!/bin/sh
echo "CGO_ENABLED=$CGO_ENABLED GOWORK=$GOWORK GOFLAGS=$GOFLAGS $*" >> "$CALLS"
while test -n "$1"; do test "$1" = -o && echo built > "$2"; shift; done
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

func TestEnsureBuildsOnceWithFixedSettings(t *testing.T) {
	f := newFixture(t)
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "somewhere")
	for range 2 {
		set, err := f.ensure(t.Context(), f.release, f.cache)
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range Programs() {
			if content, err := os.ReadFile(set.Path(program)); string(content) != "built\n" {
				t.Errorf("%s holds %q (%v)", program, content, err)
			}
		}
	}
	calls := f.goCalls(t)
	if len(calls) != len(Programs()) {
		t.Fatalf("got %d calls of the go command, want %d:\n%s", len(calls), len(Programs()), strings.Join(calls, "\n"))
	}
	for _, call := range calls {
		if !strings.HasPrefix(call, "CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly build -trimpath -buildvcs=false -modfile=go.mod ") ||
			!strings.Contains(call, "-X k8s.io/component-base/version.gitVersion=v1.36.3 ") {
			t.Errorf("called go with %s", call)
		}
	}
	if !strings.Contains(f.log.String(), "control plane 1.36.3: building etcd (5 of 5)\n") {
		t.Errorf("logged %q", f.log.String())
	}
}

func TestEnsureBuildsAgainAfterAChange(t *testing.T) {
	f := newFixture(t)
	before, err := f.ensure(t.Context(), f.release, f.cache)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.moduleDir, "etcd", "main.go"), []byte("package main // changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := f.ensure(t.Context(), f.release, f.cache)
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
	_, err := f.ensure(t.Context(), f.release, f.cache)
	if err == nil || !strings.HasPrefix(err.Error(), "build kube-apiserver 1.36.3: ") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got error %v, want what the go command wrote", err)
	}
	t.Setenv("FAIL", "")
	if _, err := f.ensure(t.Context(), f.release, f.cache); err != nil {
		t.Errorf("after a failed build: %v", err)
	}
}

func TestEnsureAtTheSameTimeBuildsOnce(t *testing.T) {
	f := newFixture(t)
	gate := filepath.Join(t.TempDir(), "gate")
	t.Setenv("GATE", gate)
	var group errgroup.Group
	for range 2 {
		group.Go(func() error {
			_, err := f.ensure(t.Context(), f.release, f.cache)
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
	if calls := f.goCalls(t); len(calls) != len(Programs()) {
		t.Errorf("got %d calls of the go command, want %d", len(calls), len(Programs()))
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
