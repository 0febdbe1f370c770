package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/sample"
	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// Sources returns the inputs: a sample, or files, the files of directories, and standard input for -.
func (r *Recordings) Sources(stdin io.Reader, files []string) ([]simulate.Source, error) {
	switch r.Sample {
	case churn:
		return []simulate.Source{simulate.NewSource("sample churn", sample.Churn())}, nil
	case quiet:
		return []simulate.Source{simulate.NewSource("sample quiet", sample.Quiet(r.SampleNodes))}, nil
	case narrow:
		return []simulate.Source{simulate.NewSource("sample narrow", sample.Narrow())}, nil
	case probes:
		return []simulate.Source{simulate.NewSource("sample probes", sample.Probes())}, nil
	}
	var all []simulate.Source
	for _, file := range files {
		if file == "-" {
			all = append(all, simulate.NewSource("standard input", stdin))
			continue
		}
		found, err := filesAt(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// filesAt returns the file at path or, if it is a directory, all files below it.
func filesAt(path string) (all []simulate.Source, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, document.ReadError(path, err)
	}
	source := func(path string, info fs.FileInfo, inDirectory bool) simulate.Source {
		size := info.Size()
		if !info.Mode().IsRegular() { // a pipe
			size = -1
		}
		return simulate.Source{Name: path, Size: size, FromDirectory: inDirectory, Open: func() (io.ReadCloser, error) { return open(path) }}
	}
	if !info.IsDir() {
		return []simulate.Source{source(path, info, false)}, nil
	}
	err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.Type().IsRegular() {
			return nil
		}
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if err != nil {
			return document.ReadError(path, err)
		}
		all = append(all, source(path, info, true))
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fmt.Errorf("%s: the directory has no files", path)
	}
	return all, nil
}

// open opens a file. The error does not name it, as the Source has its name.
func open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.New(document.ReadError(path, err).Reason)
	}
	return file, nil
}
