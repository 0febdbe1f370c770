package busiest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// maxUnpacked is how long a value may be when it is unpacked, in bytes. The 4 rankings of a
// snapshot can take 8 MB: 256 rows, with names of three parts of which each byte is written as \x00.
const maxUnpacked = 64 << 20

// pack is v as Redis keeps it: JSON, compressed, which takes a fifth of it. It is
// written every two seconds, and Redis may keep a log of that.
func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	return b.Bytes(), nil
}

// unpack reads into v what pack wrote.
func unpack(packed []byte, v any) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpack what was counted: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(v); err != nil {
		return fmt.Errorf("unpack what was counted: %w", err)
	}
	return nil
}
