package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"github.com/eventquota/eventquota/test/bench/publish"
)

// part is a part of the tests.
type part struct {
	name string
	args []string // of the go command
}

const (
	demoPart  = "demo"
	redisPart = "redis"
)

// parts returns all parts, in the order in which they run.
func parts() []part {
	return []part{
		{demoPart, []string{"run", "./test/demo"}},
		{"facts", testArgs("./test/facts")},
		{"validation", testArgs("-run=^TestValidation$", "./test/e2e")},
		{"e2e", testArgs("-skip=^TestValidation$", "./test/e2e")},
		{"priority-levels", testArgs("./test/prioritylevels")},
		{redisPart, testArgs("./store/redis", "./store/redisclient")},
	}
}

// testArgs returns the arguments of go test: those of make test, and some more.
func testArgs(more ...string) []string {
	return append([]string{"test", "-json", "-count=1", "-timeout=60m", "-vet=off", "-parallel=4"}, more...)
}

// runTests runs go test.
func runTests(ctx context.Context, args []string) (publish.Result, error) {
	cmd := goCommand(ctx, args)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return publish.Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return publish.Result{}, err
	}
	result, err := readTests(output, os.Stdout)
	if err != nil {
		return result, errors.Join(err, cmd.Cancel(), cmd.Wait())
	}
	switch err := cmd.Wait(); {
	case err != nil && result.OK():
		result.Error = "go test failed, but no test did"
	case result.Passed == 0 && result.OK():
		result.Error = "no test ran"
	}
	return result, nil
}

// runDemo runs the demo.
func runDemo(ctx context.Context, args []string) (publish.Result, error) {
	cmd := goCommand(ctx, args)
	var output bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stdout, &output)
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return publish.Result{Error: "the demo failed"}, nil
	}
	figures := publish.Record{Figures: map[string]float64{}}
	if err := figures.AddDemo(output.String()); err != nil {
		return publish.Result{}, err
	}
	if wrong := figures.Figures["demo_count_error"]; wrong != 0 {
		return publish.Result{Error: fmt.Sprintf("%.0f occurrences are counted wrongly", wrong)}, nil
	}
	return publish.Result{}, nil
}

// goCommand returns a go command. When ctx is done, it interrupts the command and all programs that it runs.
func goCommand(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// redisServer returns the name and version of the redis-server on PATH, such as Redis 7.0.15.
func redisServer(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "redis-server", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("redis-server --version: %w", err)
	}
	named := regexp.MustCompile(`^(\w+) server v=(\S+)`).FindSubmatch(output)
	if named == nil {
		return "", fmt.Errorf("redis-server --version names no version: %s", output)
	}
	return fmt.Sprintf("%s %s", named[1], named[2]), nil
}
