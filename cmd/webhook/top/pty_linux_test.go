package top

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eventquota/eventquota/test/cli"
)

// terminal is a pseudo-terminal and what was written to it.
type terminal struct {
	user, program *os.File
	mu            sync.Mutex
	written       bytes.Buffer
	closed        chan struct{}
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(user.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 100}); err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &terminal{user: user, program: program, closed: make(chan struct{})}
	go func() {
		defer close(p.closed)
		buffer := make([]byte, 4096)
		for {
			n, err := user.Read(buffer)
			p.mu.Lock()
			p.written.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _, _ = program.Close(), user.Close() })
	return p
}

func (p *terminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.String()
}

func (p *terminal) mode(t *testing.T) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(p.program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

// topArgs says in the environment that this test is to be top itself.
const topArgs = "EVENTQUOTA_TEST_TOP"

// TestATerminalIsGivenBackAsItWas runs top as a process of its own, in a terminal
// of its own.
func TestATerminalIsGivenBackAsItWas(t *testing.T) {
	if args := os.Getenv(topArgs); args != "" {
		cmd := cli.Under(Command())
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return
	}
	for says, end := range map[string]func(*terminal, *os.Process) error{
		"by a key":    func(p *terminal, _ *os.Process) error { _, err := p.user.WriteString("q"); return err },
		"by Ctrl-C":   func(p *terminal, _ *os.Process) error { _, err := p.user.WriteString("\x03"); return err },
		"by a signal": func(_ *terminal, top *os.Process) error { return top.Signal(syscall.SIGTERM) },
	} {
		t.Run(says, func(t *testing.T) {
			p := openTerminal(t)
			before := p.mode(t)
			top := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestATerminalIsGivenBackAsItWas$", "-test.count=1")
			top.Env = append(os.Environ(), topArgs+"=top --endpoint "+serveStorm(t), "TERM=xterm-256color")
			top.Stdin, top.Stdout, top.Stderr = p.program, p.program, p.program
			top.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := top.Start(); err != nil {
				t.Fatal(err)
			}
			cli.Eventually(t, "the view is drawn", func() bool { return strings.Contains(p.text(), "noisy-operator") })
			if p.mode(t) == before || !strings.Contains(p.text(), "\x1b[?1049h") {
				t.Error("the terminal was not taken over")
			}
			if err := end(p, top.Process); err != nil {
				t.Fatal(err)
			}
			if err := top.Wait(); err != nil {
				t.Errorf("%v: %q", err, p.text())
			}
			if got := p.mode(t); got != before {
				t.Errorf("mode %+v, want %+v", got, before)
			}
			cli.Eventually(t, "the screen is given back", func() bool { return strings.Contains(p.text(), "\x1b[?1049l") })
			for on, off := range map[string]string{"\x1b[?25l": "\x1b[?25h", "\x1b[?1000h": "\x1b[?1000l", "\x1b[?2004h": "\x1b[?2004l"} {
				if text := p.text(); strings.LastIndex(text, on) > strings.LastIndex(text, off) {
					t.Errorf("%q is still on", on)
				}
			}
		})
	}
}
