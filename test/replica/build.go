package replica

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programVariable is the environment variable with the path of the webhook's program. Processes that a test starts inherit it, and
// make test sets it, so that the program is built once.
const programVariable = "EVENTQUOTA_TEST_PROGRAM"

// Build builds the webhook of this checkout in the user's cache directory, and returns the path of the program. A
// later call in this process or in one that it starts returns the same path. It needs no C compiler.
func Build(ctx context.Context) (string, error) {
	if path := os.Getenv(programVariable); path != "" {
		return path, nil
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/eventquota/eventquota").Output()
	if err != nil {
		return "", fmt.Errorf("find the webhook's module: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	dir := strings.TrimSpace(string(module))
	path := filepath.Join(cache, "eventquota", "webhook", fmt.Sprintf("%.6x", sha256.Sum256([]byte(dir))), "eventquota")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", path, "github.com/eventquota/eventquota/cmd/webhook")
	build.Dir = dir // the caller may be in another module
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the webhook: %w\n%s", err, output)
	}
	return path, os.Setenv(programVariable, path)
}
