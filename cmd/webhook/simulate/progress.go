package simulate

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/eventquota/eventquota/admission/simulate"
)

// drawEvery is how often progress is drawn.
const drawEvery = 100 * time.Millisecond

// progress says in the last line of a terminal how far a simulation is. It is for one goroutine at a time.
type progress struct {
	out   io.Writer // nil for nothing
	read  int64     // in bytes
	drawn time.Time
}

// newProgress draws on w if that is a terminal.
func newProgress(w io.Writer) *progress {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &progress{out: file}
	}
	return &progress{}
}

// sources are the files of some paths, with - for standard input, whose reading is drawn.
func (p *progress) sources(paths []string, stdin io.Reader) []simulate.Source {
	all := make([]simulate.Source, 0, len(paths))
	for _, path := range paths {
		one := simulate.Source{Name: path, Open: func() (io.ReadCloser, error) {
			file, err := os.Open(path)
			return &shownReader{file, p}, err
		}}
		if path == "-" {
			one = simulate.Source{Name: "standard input", Open: func() (io.ReadCloser, error) {
				return &shownReader{io.NopCloser(stdin), p}, nil
			}}
		}
		all = append(all, one)
	}
	return all
}

// shownReader draws what is read.
type shownReader struct {
	io.ReadCloser

	progress *progress
}

func (r *shownReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.progress.read += int64(n)
	r.progress.draw("%d MB read", r.progress.read/1e6)
	return n, err
}

func (p *progress) draw(format string, args ...any) {
	if p.out != nil && time.Since(p.drawn) >= drawEvery {
		p.drawn = time.Now()
		fmt.Fprintf(p.out, clearLine+format, args...)
	}
}

// clear removes what was drawn.
func (p *progress) clear() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.out, clearLine)
	}
}

const clearLine = "\r\033[K"
