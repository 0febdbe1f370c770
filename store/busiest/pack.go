package busiest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// maxSnapshot is how long a snapshot can be unpacked, in bytes: 4 rankings of
// 256 rows, with names of three parts of which each byte is written as \x00.
const maxSnapshot = 8 << 20

// pack is s as Redis keeps it: JSON, compressed, which takes a fifth of it. It is
// written every two seconds, and Redis may keep a log of that.
func pack(s Snapshot) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("pack a snapshot: %w", err)
	}
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return nil, fmt.Errorf("pack a snapshot: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack a snapshot: %w", err)
	}
	return b.Bytes(), nil
}

// unpack reads what pack wrote, unless getting it failed.
func unpack(packed []byte, failed error) (s Snapshot, err error) {
	if failed != nil {
		return s, failed
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return s, fmt.Errorf("unpack a snapshot: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(r, maxSnapshot)).Decode(&s); err != nil {
		return s, fmt.Errorf("unpack a snapshot: %w", err)
	}
	return s, nil
}
