package replica

import (
	"os/exec"
	"syscall"
)

// detach shields a process from Ctrl-C in the terminal, because its parent stops it. The kernel kills the process
// when the thread that started it ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
