package simulate

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

// drawEvery is the least time between two drawings of a progress bar.
const drawEvery = 100 * time.Millisecond

// progressBar shows the progress of a simulation on a terminal, and nothing on anything else.
type progressBar struct {
	out         io.Writer // nil for nothing
	read, bytes int64     // of the files whose size is known
	drawn       time.Time
}

func newProgressBar(w io.Writer) *progressBar {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progressBar{out: file}
		}
	}
	return &progressBar{}
}

// sources are the files at paths, and stdin for "-". The bar shows how they are read.
func (b *progressBar) sources(paths []string, stdin io.Reader) []simulate.Source {
	all := make([]simulate.Source, 0, len(paths))
	for _, path := range paths {
		if path == "-" {
			all = append(all, simulate.Source{Name: "standard input", Open: func() (io.ReadCloser, error) {
				return &shownReader{io.NopCloser(stdin), b}, nil
			}})
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			b.bytes += info.Size()
		}
		all = append(all, simulate.Source{Name: path, Open: func() (io.ReadCloser, error) {
			file, err := os.Open(path)
			return &shownReader{file, b}, err
		}})
	}
	return all
}

// shownReader shows what is read.
type shownReader struct {
	io.ReadCloser

	bar *progressBar
}

func (r *shownReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.bar.read += int64(n)
	r.bar.draw("reading", r.bar.read, r.bar.bytes, fmt.Sprintf("%d MB", r.bar.read/1e6))
	return n, err
}

// deciding shows how many writes are decided.
func (b *progressBar) deciding(done, of int64) {
	b.draw("deciding", done, of, fmt.Sprintf("%d writes", done))
}

func (b *progressBar) draw(doing string, done, of int64, figure string) {
	if b.out == nil || time.Since(b.drawn) < drawEvery {
		return
	}
	b.drawn = time.Now()
	const width = 30
	filled := 0
	if of > 0 {
		filled = int(min(done, of) * width / of)
	}
	fmt.Fprintf(b.out, "\r\033[K%-8s [%s%s] %s", doing, strings.Repeat("=", filled), strings.Repeat(" ", width-filled), figure)
}

// clear removes the bar.
func (b *progressBar) clear() {
	if b.out != nil && !b.drawn.IsZero() {
		fmt.Fprint(b.out, "\r\033[K")
	}
}
