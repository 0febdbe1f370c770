package redistest

import (
	"os/exec"
	"syscall"
)

// detach protects a process from Ctrl-C at the terminal, as its parent stops it. The kernel kills the process when the
// thread that started it ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
