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

// platforms returns the platforms of the image.
func platforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

// program is the webhook built for one platform.
type program struct {
	platform v1.Platform
	path     string
	info     *buildinfo.BuildInfo
}

// buildAll builds the webhook for each platform in dir.
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

// flags returns the build flags, which are the same in the Makefile and the Dockerfile.
const flags = "-trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace"

// linkerFlags returns the linker flags, which are the same in `make build` and the Dockerfile.
func linkerFlags(version string) string { return "-s -w -X main.version=" + version }

func (p *program) build(ctx context.Context, o options) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", linkerFlags(o.Version), "-o", p.path, "./cmd/webhook")
	cmd.Dir = o.Root
	// The settings of a developer would change the bytes.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.platform.OS, "GOARCH="+p.platform.Architecture,
		"GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFLAGS=-mod=readonly "+flags)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	return p.read()
}

// read reads the build information of the program.
func (p *program) read() error {
	var err error
	p.info, err = buildinfo.ReadFile(p.path)
	return err
}

// setting returns a setting in the build information, or "" if there is none.
func (p *program) setting(key string) string {
	for _, s := range p.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// revision returns the commit that the program was built from, or "" if the checkout had changes.
func (p *program) revision() string {
	if p.setting("vcs.modified") != "false" {
		return ""
	}
	return p.setting("vcs.revision")
}

// made returns the only time in an image: SOURCE_DATE_EPOCH, the time of the commit, or the beginning of 1970. It does not
// depend on the clock.
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
