package replay

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventquota/eventquota/admission/simulate"
)

// newLateProgress returns a Progress whose task began so long ago that the bar appears at once.
func newLateProgress(out io.Writer, task string, total int64, bytes bool) *Progress {
	p := &Progress{out: out}
	p.Begin(task, total, bytes)
	p.began = time.Now().Add(-progressAfter)
	return p
}

func TestProgressAppearsAfterDelay(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{out: &out}
	p.Begin("reading", 1000, true)
	p.Add(100)
	if out.Len() > 0 {
		t.Errorf("the bar appears at once: %q", out.String())
	}
	p.began = time.Now().Add(-progressAfter)
	p.Add(150)
	if got := out.String(); !strings.Contains(got, "reading") || !strings.Contains(got, "25%") || !strings.Contains(got, "(250 B/1.0 kB, ") {
		t.Errorf("bar %q, want 25%% of 1.0 kB read", got)
	}
	p.Begin("deciding", 10, false)
	if got := out.String(); !strings.HasSuffix(strings.TrimRight(got, " "), "\r") {
		t.Errorf("the first bar is not removed: %q", got)
	}
	p.End()
}

func TestProgressWithoutTotal(t *testing.T) {
	var out bytes.Buffer
	p := newLateProgress(&out, "reading", -1, true)
	p.Add(3000)
	p.Add(1)
	p.End()
	if got := out.String(); !strings.Contains(got, "reading") || !strings.Contains(got, "(3.0 kB, ") || strings.Contains(got, "%") {
		t.Errorf("bar %q, want 3.0 kB read, without a percentage", got)
	}
}

// newTerminal opens a pseudo-terminal, which is closed when the test ends.
func newTerminal(t *testing.T) *os.File {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return tty
}

func TestProgressNeedsExclusiveTerminal(t *testing.T) {
	tty := newTerminal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for _, c := range []struct {
		name       string
		out, lines io.Writer
		shown      bool
	}{
		{"a terminal", tty, nil, true},
		{"a terminal, and lines to a file", tty, file, true},
		{"a terminal, and lines to it", tty, tty, false},
		{"a file", file, nil, false},
		{"no file", &bytes.Buffer{}, nil, false},
	} {
		p := NewProgress(c.out, c.lines)
		if shown := p.out != nil; shown != c.shown {
			t.Errorf("%s: shown %v, want %v", c.name, shown, c.shown)
		}
	}
}

func TestReadCountsOnTerminalOnly(t *testing.T) {
	for _, out := range []io.Writer{newTerminal(t), &bytes.Buffer{}} {
		p := NewProgress(out, nil)
		p.Begin("reading", 1000, true)
		in, err := p.counted(simulate.NewSource("a", strings.NewReader("abc"))).Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		want := int64(3)
		if buffer, ok := out.(*bytes.Buffer); ok {
			p.began = time.Now().Add(-progressAfter)
			if p.Add(1); buffer.Len() > 0 {
				t.Errorf("%q was written, want nothing without a terminal", buffer)
			}
			want = 0
		}
		if p.done != want {
			t.Errorf("%T: %d bytes counted, want %d", out, p.done, want)
		}
		p.End()
	}
}

func TestTotalSizeIsUnknownIfOneIs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := filesAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := sizeOf(files); got != 4 {
		t.Errorf("the files have %d bytes, want 4", got)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	pipes, err := filesAt(pipe)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []simulate.Source{pipes[0], simulate.NewSource("standard input", strings.NewReader(""))} {
		if got := sizeOf(append(files, source)); got != -1 {
			t.Errorf("with %s: %d, want -1", source.Name, got)
		}
	}
}
