// Package otel runs an OpenTelemetry Collector for tests and stores the logs that it exports.
package otel

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds packages of the module test/sink in the user's cache directory, and returns the directory of the
// programs. It needs no C compiler.
func Build(ctx context.Context, packages ...string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/eventquota/eventquota").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	dir := filepath.Join(cache, "eventquota", "otel")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of programs: %w", err)
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}, packages...)...)
	build.Dir = filepath.Join(strings.TrimSpace(string(root)), "test", "sink")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %v: %w\n%s", packages, err, output)
	}
	return dir, nil
}
