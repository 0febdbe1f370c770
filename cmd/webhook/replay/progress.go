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
	// progressAfter is the time after which a bar appears, and progressEvery the time between two updates of it.
	progressAfter, progressEvery = 2 * time.Second, 100 * time.Millisecond
	// progressWidth is the width of the bar in columns, without its text.
	progressWidth = 30
)

// Progress shows a progress bar for each task on a terminal, once the task has taken two seconds. It is not safe for concurrent use.
type Progress struct {
	out   io.Writer                // nil to show nothing
	bar   *progressbar.ProgressBar // of the current task; nil if there is none
	done  int64                    // the progress before the bar is shown
	began time.Time
	shown bool
}

// NewProgress returns a Progress that writes to out, if out is a terminal. If lines is a terminal too, it shows nothing, because bars
// would mix with the lines that are written there.
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

// Begin ends the current task and begins another one. total is its size, in bytes if bytes is set, or -1 if unknown.
func (p *Progress) Begin(task string, total int64, bytes bool) {
	p.End()
	if p.out == nil {
		return
	}
	p.done, p.began = 0, time.Now()
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(task), progressbar.OptionSetWidth(progressWidth),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionThrottle(progressEvery),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0)) // otherwise a goroutine draws it that never ends
	p.bar.StartWithoutRender()
}

// Add adds n to the progress of the current task.
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

// End ends the current task and removes its bar.
func (p *Progress) End() {
	if p.shown {
		_ = p.bar.Clear()
	}
	p.bar, p.shown = nil, false
}

// counted returns s with a reader that adds the bytes read to the progress.
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

// ReadTrace reads sources and shows the progress. Its errors are those of simulate.Read.
func (p *Progress) ReadTrace(ctx context.Context, sources []simulate.Source, exempt simulate.Exempt) (*simulate.Trace, error) {
	p.Begin("reading", sizeOf(sources), true)
	defer p.End()
	for i := range sources {
		sources[i] = p.counted(sources[i])
	}
	return simulate.Read(ctx, sources, exempt)
}

// sizeOf returns the size of the sources in bytes, at least 1, or -1 if it is unknown.
func sizeOf(sources []simulate.Source) (size int64) {
	for i := range sources {
		if sources[i].Size < 0 {
			return -1
		}
		size += sources[i].Size
	}
	return max(size, 1)
}
