package redistest

import (
	"os/exec"
	"syscall"
)

// detach keeps a Ctrl-C at the terminal from a process, which is for its parent
// to stop, and makes the kernel kill it when the thread that started it ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
