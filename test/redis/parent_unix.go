//go:build unix && !linux

package redistest

import (
	"os/exec"
	"syscall"
)

// detach protects a process from Ctrl-C at the terminal, as its parent stops it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
