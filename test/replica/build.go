package replica

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the program of this checkout into dir and returns its
// path. It needs no C compiler.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "eventquota")
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/eventquota/eventquota").Output()
	if err != nil {
		return "", fmt.Errorf("find the webhook's module: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", path, "github.com/eventquota/eventquota/cmd/webhook")
	build.Dir = strings.TrimSpace(string(module)) // the caller may be in a module of its own
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the webhook: %w\n%s", err, output)
	}
	return path, nil
}
