package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"text/template"
)

// reviewText is what kube-apiserver 1.36 sends about an Event of a kubelet.
//
//go:embed review.json.tmpl
var reviewText string

const (
	// serialMark stands in reviewText where a review carries its serial number, and has as many bytes. namespaceMark stands
	// where it has the number of its namespace.
	serialMark, namespaceMark = "########", "@@@@@@@@"
	serials                   = 100_000_000
)

// review is the body of an AdmissionReview that can be made to be about one
// Event after the other. It is for one goroutine.
type review struct {
	body          []byte
	serialOffsets []int // where the serial number is
	// namespaceOffsets are where the number of the namespace is: each has podsOfANamespace.
	namespaceOffsets []int
}

// newReview makes the review of a CREATE, or of the UPDATE by which a recorder counts a repeat.
func newReview(update bool) (*review, error) {
	t, err := template.New("review").Parse(reviewText)
	if err != nil {
		return nil, fmt.Errorf("read the review: %w", err)
	}
	var text, compact bytes.Buffer
	if err := t.Execute(&text, update); err != nil {
		return nil, fmt.Errorf("make the review: %w", err)
	}
	if err := json.Compact(&compact, text.Bytes()); err != nil {
		return nil, fmt.Errorf("make the review: %w", err)
	}
	r := &review{body: compact.Bytes()}
	r.serialOffsets, r.namespaceOffsets = findAll(r.body, serialMark), findAll(r.body, namespaceMark)
	return r, nil
}

// findAll is where a mark is in a text.
func findAll(text []byte, mark string) (all []int) {
	for from := 0; ; {
		at := bytes.Index(text[from:], []byte(mark))
		if at < 0 {
			return all
		}
		all = append(all, from+at)
		from += at + len(mark)
	}
}

// clone is a review for another goroutine.
func (r *review) clone() *review {
	return &review{body: bytes.Clone(r.body), serialOffsets: r.serialOffsets, namespaceOffsets: r.namespaceOffsets}
}

// withSerial makes the review that of another Event and returns its body, which
// the next call changes.
func (r *review) withSerial(serial int) []byte {
	r.write(r.serialOffsets, serial)
	r.write(r.namespaceOffsets, serial/podsOfANamespace)
	return r.body
}

// write writes a number at each of some places.
func (r *review) write(at []int, n int) {
	digits := strconv.AppendInt(make([]byte, 0, 16), int64(serials+n%serials), 10)[1:]
	for _, from := range at {
		copy(r.body[from:], digits)
	}
}
