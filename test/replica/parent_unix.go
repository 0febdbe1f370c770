//go:build unix && !linux

package replica

import (
	"os/exec"
	"syscall"
)

// detach shields a process from Ctrl-C in the terminal, because its parent stops it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
