package simulate

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

func TestProgressIsShownOnATerminalOnceItTakesLong(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out}
	p.begin("reading", 1000, true)
	p.add(100)
	if out.Len() > 0 {
		t.Errorf("shown at once: %q", out.String())
	}
	p.began = time.Now().Add(-progressAfter)
	p.add(150)
	if got := out.String(); !strings.Contains(got, "reading") || !strings.Contains(got, "25%") {
		t.Errorf("shown: %q", got)
	}
	p.begin("deciding", 10, false)
	if got := out.String(); !strings.HasSuffix(strings.TrimRight(got, " "), "\r") {
		t.Errorf("the first bar is not taken away: %q", got)
	}
	p.end()
}

func TestProgressIsForTerminalsOnly(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.begin("reading", 1000, true)
	p.began = time.Now().Add(-progressAfter)
	in, err := p.counted(simulate.From("a", strings.NewReader("abc"))).Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(in); err != nil || p.done != 3 || out.Len() > 0 {
		t.Errorf("%v, %d bytes counted, and %q written", err, p.done, out.String())
	}
}
