package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Set is the set of built programs of one version.
type Set struct {
	Version string // Kubernetes version without the v, such as 1.37.2
	dir     string
}

// Path returns the path of a program that was requested from Ensure.
func (s Set) Path(program string) string { return filepath.Join(s.dir, program) }

// Ensure returns a set with the named programs, of the version that VersionVariable selects. It first builds the
// programs that the user's cache directory lacks for the checkout around the working directory. Progress goes to log.
// If several runs start at once, one builds and the others wait. An error names the cause: the variable, the working
// directory, or the output of the go command.
func Ensure(ctx context.Context, log io.Writer, programs ...string) (Set, error) {
	workDir, err := os.Getwd()
	if err != nil {
		return Set{}, fmt.Errorf("find the checkout: %w", err)
	}
	moduleDir, err := findModule(workDir)
	if err != nil {
		return Set{}, err
	}
	from, err := releases(moduleDir)
	if err != nil {
		return Set{}, err
	}
	r, err := findRelease(os.Getenv(VersionVariable), from)
	if err != nil {
		return Set{}, err
	}
	userCache, err := os.UserCacheDir()
	if err != nil {
		return Set{}, fmt.Errorf("find the cache directory: %w", err)
	}
	b := builder{goCommand: "go", moduleDir: moduleDir, log: log, progressInterval: 15 * time.Second}
	return b.ensure(ctx, r, filepath.Join(userCache, "eventquota", "controlplane"), programs)
}

// ensure returns the set of r in cache with the named programs, and builds the missing ones. Each program appears by
// one rename, so an existing file is always complete and needs no lock.
func (b builder) ensure(ctx context.Context, r release, cache string, programs []string) (Set, error) {
	sum, err := fingerprint(b.moduleDir, r)
	if err != nil {
		return Set{}, err
	}
	set := Set{
		Version: r.version,
		dir:     filepath.Join(cache, fmt.Sprintf("%s-%s-%s-%s", r.version, runtime.GOOS, runtime.GOARCH, sum)),
	}
	if len(set.missing(programs)) == 0 {
		return set, nil
	}
	if err := os.MkdirAll(set.dir, 0o755); err != nil {
		return Set{}, fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lock(ctx, set.dir+".lock", b.log)
	if err != nil {
		return Set{}, err
	}
	defer unlock()
	missing := set.missing(programs) // another run may have built some of them
	if len(missing) == 0 {
		return set, nil
	}
	return set, b.buildInto(ctx, r, missing, set)
}

// missing returns the named programs that are not built.
func (s Set) missing(programs []string) (missing []string) {
	for _, program := range programs {
		if _, err := os.Stat(s.Path(program)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, program)
		}
	}
	return missing
}

// buildInto builds in a separate directory and then renames the programs into the set. A build that fails or is
// killed therefore leaves no file that a later run would use. The caller holds the set's lock, so files of a killed
// run can be removed.
func (b builder) buildInto(ctx context.Context, r release, programs []string, set Set) error {
	unfinished := set.dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove an unfinished build: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return fmt.Errorf("make the build directory: %w", err)
	}
	if err := b.build(ctx, r, programs, unfinished); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	for _, program := range programs {
		if err := os.Rename(filepath.Join(unfinished, program), set.Path(program)); err != nil {
			return fmt.Errorf("move a built program into the cache: %w", err)
		}
	}
	return os.Remove(unfinished)
}

// fingerprint returns a short hash over all inputs of a build: the release's mod and sum file, the mains, and the
// arguments of the go command.
func fingerprint(moduleDir string, r release) (string, error) {
	sumFile := strings.TrimSuffix(r.modFile, ".mod") + ".sum"
	mains, err := filepath.Glob(filepath.Join(moduleDir, "*", "*.go"))
	if err != nil {
		return "", fmt.Errorf("list the mains: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%q\n", buildArgs(r))
	for _, path := range append([]string{filepath.Join(moduleDir, r.modFile), filepath.Join(moduleDir, sumFile)}, mains...) {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("hash the control plane module: %w", err)
		}
		name, err := filepath.Rel(moduleDir, path)
		if err != nil {
			return "", fmt.Errorf("hash the control plane module: %w", err)
		}
		fmt.Fprintf(hash, "%s %x\n", name, sha256.Sum256(content))
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}
