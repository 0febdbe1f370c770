package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Programs are the names of the built programs, the slowest to build first.
func Programs() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd"}
}

// builder builds one release. Its fields are what tests replace.
type builder struct {
	goCommand string        // the go command, or what stands for it
	moduleDir string        // directory of the control plane module
	log       io.Writer     // progress, one line at a time
	every     time.Duration // time between two lines about one program
}

// build puts every program of r into dir, which must exist. It runs one go command at
// a time: each of them already uses all processors.
func (b builder) build(ctx context.Context, r release, dir string) error {
	for i, program := range Programs() {
		what := fmt.Sprintf("control plane %s: building %s (%d of %d)", r.version, program, i+1, len(Programs()))
		done := report(b.log, what, b.every)
		err := b.goBuild(ctx, r, program, filepath.Join(dir, program))
		done()
		if err != nil {
			return fmt.Errorf("build %s %s: %w", program, r.version, err)
		}
	}
	return nil
}

// goBuild runs one go build. The error carries what the go command wrote.
func (b builder) goBuild(ctx context.Context, r release, program, output string) error {
	cmd := exec.CommandContext(ctx, b.goCommand, append(buildArgs(r), "-o", output, "./"+program)...)
	// A caller's workspace or flags, such as -mod=mod, must not change what is built.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Dir = b.moduleDir
	// An interrupted go command removes its work directory, a killed one does not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var written bytes.Buffer
	cmd.Stdout, cmd.Stderr = &written, &written
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, written.Bytes())
	}
	return nil
}

// buildArgs are the arguments that make a program what it is, output and package
// aside. The version is linked in because a program built as a dependency does not
// know its own, and /version would say v0.0.0.
func buildArgs(r release) []string {
	major, minor, _ := strings.Cut(r.minor(), ".")
	link := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		link = append(link,
			"-X", pkg+".gitVersion=v"+r.version,
			"-X", pkg+".gitMajor="+major,
			"-X", pkg+".gitMinor="+minor)
	}
	return []string{"build", "-trimpath", "-buildvcs=false", "-modfile=" + r.modFile, "-ldflags=" + strings.Join(link, " ")}
}
