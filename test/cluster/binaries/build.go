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

// Programs returns the names of all programs that can be built.
func Programs() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
}

// builder builds one release. Tests replace its fields.
type builder struct {
	goCommand        string        // the go command, or a replacement
	moduleDir        string        // directory of the control plane module
	log              io.Writer     // progress, one line at a time
	progressInterval time.Duration // time between two lines about one build
}

// build builds programs of r into dir, which must exist. A single go command builds them all, so that it compiles
// shared packages once and links one program while it compiles another.
func (b builder) build(ctx context.Context, r release, programs []string, dir string) error {
	names := strings.Join(programs, ", ")
	done := reportProgress(b.log, fmt.Sprintf("control plane %s: building %s", r.version, names), b.progressInterval)
	defer done()
	if err := b.goBuild(ctx, r, programs, dir); err != nil {
		return fmt.Errorf("build %s %s: %w", names, r.version, err)
	}
	return nil
}

// goBuild runs one go build. The error includes the output of the go command.
func (b builder) goBuild(ctx context.Context, r release, programs []string, dir string) error {
	args := append(buildArgs(r), "-o", dir+string(filepath.Separator))
	for _, program := range programs {
		args = append(args, "./"+program)
	}
	cmd := exec.CommandContext(ctx, b.goCommand, args...)
	// A caller's workspace or flags, such as -mod=mod, must not change the build. With less frequent garbage
	// collection, the compiler needs a quarter less CPU time, and at most 600 MB of memory for each package.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOGC=400")
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

// buildArgs returns the arguments of go build without output and packages. The version is linked in, because a
// program built as a dependency does not know its version, and /version would report v0.0.0.
func buildArgs(r release) []string {
	major, minor, _ := strings.Cut(r.minor(), ".")
	link := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		link = append(link,
			"-X", pkg+".gitVersion=v"+r.version,
			"-X", pkg+".gitMajor="+major,
			"-X", pkg+".gitMinor="+minor)
	}
	return []string{"build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-modfile=" + r.modFile, "-ldflags=" + strings.Join(link, " ")}
}
