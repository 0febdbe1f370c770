package simulate

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/eventquota/eventquota/admission/simulate"
)

const (
	// progressAfter is how long something takes before a bar says how far it is, and progressEvery how often the bar is drawn.
	progressAfter, progressEvery = 2 * time.Second, 100 * time.Millisecond
	// progressWidth is how wide a bar is, in columns, beside what it says.
	progressWidth = 30
)

// progress shows on a terminal how far reading and deciding are, once that takes long. It is for one goroutine at a time.
type progress struct {
	out   io.Writer                // nil for none
	bar   *progressbar.ProgressBar // of what is done now; nil for nothing
	done  int64                    // before the bar is shown
	began time.Time
	shown bool
}

// newProgress makes one that writes to a terminal, and nothing where there is none. Where lines meanwhile go to a terminal
// too, it writes nothing either, as they would run into each other.
func newProgress(out, lines io.Writer) *progress {
	if isTerminal(out) && !isTerminal(lines) {
		return &progress{out: out}
	}
	return &progress{}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// begin ends what was done before, and begins something else. total is -1 where it is not known.
func (p *progress) begin(what string, total int64, bytes bool) {
	p.end()
	if p.out == nil {
		return
	}
	p.done, p.began = 0, time.Now()
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(progressWidth),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionThrottle(progressEvery),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0)) // or else a goroutine draws it, without end
	p.bar.StartWithoutRender()
}

// add says that more is done.
func (p *progress) add(n int64) {
	switch {
	case p.bar == nil:
	case p.shown:
		_ = p.bar.Add64(n)
	default:
		if p.done += n; time.Since(p.began) >= progressAfter {
			p.shown = true
			_ = p.bar.Add64(p.done)
		}
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.shown {
		_ = p.bar.Clear()
	}
	p.bar, p.shown = nil, false
}

// counted makes a source count what is read of it.
func (p *progress) counted(s simulate.Source) simulate.Source {
	open := s.Open
	s.Open = func() (io.ReadCloser, error) {
		in, err := open()
		return &countedReader{in, p}, err
	}
	return s
}

type countedReader struct {
	io.ReadCloser

	progress *progress
}

// Read implements io.Reader.
func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.progress.add(int64(n))
	return n, err
}
