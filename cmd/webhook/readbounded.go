package main

import (
	"fmt"
	"io"
	"os"
)

// readFileBounded reads a file of at most so many bytes. It fails on a longer one, also
// on one without end.
func readFileBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // what was read is known already
	return readBounded(file, most)
}

// readBounded is readFileBounded of what is open.
func readBounded(r io.Reader, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, fmt.Errorf("must have at most %d bytes", most)
	}
	return content, err
}
