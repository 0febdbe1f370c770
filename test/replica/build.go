package replica

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds the webhook program of this checkout into dir and returns its
// path. It needs no C compiler.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "webhook")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", path, "github.com/eventquota/eventquota/cmd/webhook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the webhook: %w\n%s", err, output)
	}
	return path, nil
}
