package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// platforms are those that the image is offered for.
func platforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

// program is the webhook, built for a platform.
type program struct {
	platform v1.Platform
	path     string
	info     *buildinfo.BuildInfo
}

// buildAll builds the webhook for each platform, into dir.
func buildAll(ctx context.Context, o options, dir string) ([]program, error) {
	var programs []program
	for _, platform := range o.Platforms {
		p := program{platform: platform, path: filepath.Join(dir, "webhook-"+platform.Architecture)}
		if err := p.build(ctx, o); err != nil {
			return nil, fmt.Errorf("build for %s: %w", platform, err)
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// flags are those of the Makefile and of the Dockerfile.
const flags = "-trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace"

// linkerFlags are those of `make build` and of the Dockerfile.
func linkerFlags(version string) string { return "-s -w -X main.version=" + version }

func (p *program) build(ctx context.Context, o options) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", linkerFlags(o.Version), "-o", p.path, "./cmd/webhook")
	cmd.Dir = o.Root
	// A developer's own settings would make other bytes.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.platform.OS, "GOARCH="+p.platform.Architecture,
		"GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFLAGS=-mod=readonly "+flags)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	return p.read()
}

// read asks the program how it was built.
func (p *program) read() error {
	var err error
	p.info, err = buildinfo.ReadFile(p.path)
	return err
}

// setting returns a build setting of the program, or an empty string.
func (p *program) setting(key string) string {
	for _, s := range p.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// revision is the commit that the program was built from; empty if no commit
// holds exactly what was built.
func (p *program) revision() string {
	if p.setting("vcs.modified") != "false" {
		return ""
	}
	return p.setting("vcs.revision")
}

// made is the only time in an image: SOURCE_DATE_EPOCH, or that of the commit,
// or else the beginning of 1970. It never depends on the clock.
func (p *program) made(o options) (time.Time, error) {
	if !o.Epoch.IsZero() {
		return o.Epoch, nil
	}
	at := p.setting("vcs.time")
	if at == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	made, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return made, fmt.Errorf("vcs.time of the program: %w", err)
	}
	return made.UTC(), nil
}
