package replay

import (
	"context"
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

// Progress shows on a terminal how far reading and deciding are, once that takes long. It is for one goroutine at a time.
type Progress struct {
	out   io.Writer                // nil for none
	bar   *progressbar.ProgressBar // of what is done now; nil for nothing
	done  int64                    // before the bar is shown
	began time.Time
	shown bool
}

// NewProgress makes one that writes to a terminal, and nothing where there is none. Where lines meanwhile go to a terminal
// too, it writes nothing either, as they would run into each other.
func NewProgress(out, lines io.Writer) *Progress {
	if isTerminal(out) && !isTerminal(lines) {
		return &Progress{out: out}
	}
	return &Progress{}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Begin ends what was done before, and begins something else. total is -1 where it is not known.
func (p *Progress) Begin(what string, total int64, bytes bool) {
	p.End()
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

// Add says that more is done.
func (p *Progress) Add(n int64) {
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

// End takes the bar away.
func (p *Progress) End() {
	if p.shown {
		_ = p.bar.Clear()
	}
	p.bar, p.shown = nil, false
}

// counted makes a source count what is read of it.
func (p *Progress) counted(s simulate.Source) simulate.Source {
	open := s.Open
	s.Open = func() (io.ReadCloser, error) {
		in, err := open()
		return &countedReader{in, p}, err
	}
	return s
}

type countedReader struct {
	io.ReadCloser

	progress *Progress
}

// Read implements io.Reader.
func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.progress.Add(int64(n))
	return n, err
}

// ReadTrace reads sources, and shows how far that is. It fails as simulate.Read does.
func (p *Progress) ReadTrace(ctx context.Context, sources []simulate.Source, exempt []string) (*simulate.Trace, error) {
	p.Begin("reading", sizeOf(sources), true)
	defer p.End()
	for i := range sources {
		sources[i] = p.counted(sources[i])
	}
	return simulate.Read(ctx, sources, exempt)
}

// sizeOf is how many bytes sources have, or -1 where that is not known.
func sizeOf(sources []simulate.Source) (size int64) {
	for i := range sources {
		if sources[i].Size < 0 {
			return -1
		}
		size += sources[i].Size
	}
	return max(size, 1)
}
