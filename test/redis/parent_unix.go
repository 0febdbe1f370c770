//go:build unix && !linux

package redistest

import (
	"os/exec"
	"syscall"
)

// detach keeps a Ctrl-C at the terminal from a process, which is for its parent
// to stop.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
