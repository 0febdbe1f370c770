package policyfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Read reads files and directories. What is not valid is left out, and in Invalid.
func Read(paths []string) (*Rules, error) {
	r, err := New()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		files, err := filesAt(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := r.readFile(file); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	r.bound()
	return r, nil
}

// filesAt is the file at path or, of a directory, the files in it that kubectl apply -f would read.
func filesAt(path string) (files []string, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, err
	}
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		found, err := fs.Glob(os.DirFS(path), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file in it", path)
	}
	return files, nil
}

func (r *Rules) readFile(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		for _, err := range r.decode(document) {
			r.Invalid = append(r.Invalid, fmt.Errorf("%s: document %d: %w", file, n, err))
		}
	}
}
