//go:build !linux

package otel

import "os/exec"

// endWithThis does nothing: a test that ends in order kills the processes that it started.
func endWithThis(*exec.Cmd) {}
