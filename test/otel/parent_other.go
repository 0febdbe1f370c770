//go:build !linux

package otel

import "os/exec"

// endWithThis does nothing: a test that ends in order kills what it has started.
func endWithThis(*exec.Cmd) {}
