//go:build !linux

package replica

import "os/exec"

// dieWithParent does nothing where the kernel has no such thing.
func dieWithParent(*exec.Cmd) {}
