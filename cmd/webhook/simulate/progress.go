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
	out io.Writer // nil for none
	bar *progressbar.ProgressBar
	// of what is done now
	what  string
	total int64
	bytes bool
	done  int64
	began time.Time
}

// newProgress makes one that writes to a terminal, and nothing where there is none.
func newProgress(out io.Writer) *progress {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &progress{out: out}
	}
	return &progress{}
}

// begin ends what was done before, and begins something else.
func (p *progress) begin(what string, total int64, bytes bool) {
	p.end()
	p.what, p.total, p.bytes, p.done, p.began = what, total, bytes, 0, time.Now()
}

// add says that more is done.
func (p *progress) add(n int64) {
	p.done += n
	if p.out == nil || p.bar == nil && time.Since(p.began) < progressAfter {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(p.total,
			progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(p.what), progressbar.OptionSetWidth(progressWidth),
			progressbar.OptionShowBytes(p.bytes), progressbar.OptionThrottle(progressEvery), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(false))
	}
	_ = p.bar.Set64(min(p.done, p.total))
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
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
