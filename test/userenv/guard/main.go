// Command guard runs a command with an invented user's kubeconfig, home directory and configuration of git. It fails if the command calls
// that user's cluster, or writes into the home directory. make runs tests with it:
//
//	guard DIR COMMAND [ARGUMENT...]
//
// Guard creates these files in DIR. The variables that it sets depend only on DIR, because go test's cache depends on them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code of the command, or 1 if it succeeded but has used what is the user's.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(stderr, "guard: needs a directory and a command")
		return 2
	}
	used, err := runAs(ctx, args[0], args[1:], stdout, stderr)
	for _, u := range used {
		fmt.Fprintln(stderr, "guard: the command", u)
	}
	if len(used) > 0 {
		fmt.Fprintln(stderr, "guard: tests must not use what belongs to the user who runs them: see test/userenv")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode() // the command has said why
	}
	if err != nil {
		fmt.Fprintln(stderr, "guard:", err)
	}
	if err != nil || len(used) > 0 {
		return 1
	}
	return 0
}

// runAs runs the command as the user whose directory is dir, and returns what it used of theirs.
func runAs(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) (used []string, err error) {
	shared, err := sharedSettings(ctx)
	if err != nil {
		return nil, err
	}
	server, err := listen(ctx, dir)
	if err != nil {
		return nil, err
	}
	u, err := newUser(dir, server)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), shared...), u.environ(server)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test then waits for its tests
	cmd.WaitDelay = time.Minute
	failed := cmd.Run()
	used, err = u.used(server)
	return used, errors.Join(failed, err, server.Close())
}

// sharedSettings returns variables that keep Go's settings and the caches of builds, which would be in another home directory otherwise.
func sharedSettings(ctx context.Context) ([]string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the cache directory: %w", err)
	}
	names := []string{"GOENV", "GOPATH", "GOCACHE", "GOMODCACHE"}
	out, err := exec.CommandContext(ctx, "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	shared := []string{"XDG_CACHE_HOME=" + cache}
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		shared = append(shared, names[i]+"="+value)
	}
	return shared, nil
}
