package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopWithin is how long a server may take to end on SIGTERM.
const stopWithin = 10 * time.Second

// process is one run of redis-server.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
}

// launch starts redis-server. Its output is appended to the file log.
func launch(log string, args ...string) (*process, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; on Debian and Ubuntu: apt-get install redis-server")
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the process has its own descriptor
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	detach(p.cmd)
	started := make(chan error)
	// One locked thread starts the process and waits for it: the kernel would take the end of that thread for the parent's.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its log shows how it ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop ends the process by SIGTERM, and kills it if that takes too long.
func (p *process) stop() error {
	if !p.running() {
		return nil
	}
	_ = p.signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopWithin):
		p.kill()
		return fmt.Errorf("redis-server still ran %s after SIGTERM", stopWithin)
	}
}

// kill ends the process at once, paused or not.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.signal(syscall.SIGKILL) // fails only when it has ended
	<-p.exited
}

// tail returns the end of a log, at most 32 KiB.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if over := len(content) - 32<<10; over > 0 {
		content = content[over:]
	}
	return string(bytes.TrimSpace(content))
}
