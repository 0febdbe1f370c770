package replica

import (
	"os/exec"
	"syscall"
)

// detach shields a process from Ctrl-C at the terminal, because its parent stops it, and
// makes the kernel kill it when the thread that started it ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
