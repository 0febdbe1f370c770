package top

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eventquota/eventquota/admission/busiest"
)

// TestATableTakesThePlaceOfTheOneBefore prints to a pseudo-terminal of seven lines.
func TestATableTakesThePlaceOfTheOneBefore(t *testing.T) {
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 7, Col: 60}); err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = screen.Close(), user.Close() }()
	for once, want := range map[bool]int{false: 2, true: 0} {
		o := defaultOptions()
		o.Once, o.By = once, string(busiest.Object)
		for again := range 2 {
			if err := o.print(screen, looks{storm(10)}, again > 0); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprint(screen, "end")
		var got strings.Builder
		for buffer := make([]byte, 4096); !strings.HasSuffix(got.String(), "end"); {
			n, err := user.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(buffer[:n])
		}
		if n := strings.Count(got.String(), clearScreen); n != want || strings.HasPrefix(got.String(), clearScreen) == once {
			t.Errorf("with --once %t it erases the screen %d times, want %d: %q", once, n, want, got.String())
		}
		if strings.Contains(got.String(), strings.Repeat("x", 60)) != once {
			t.Errorf("with --once %t it prints %q, want names cut to the terminal if it stays on it", once, got.String())
		}
	}
}
