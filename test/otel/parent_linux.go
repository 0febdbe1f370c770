package otel

import (
	"os/exec"
	"syscall"
)

// endWithThis makes the kernel kill a process when the thread that has started it ends.
func endWithThis(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
