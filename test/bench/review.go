package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"text/template"
)

// reviewText is a template of the review that kube-apiserver 1.36 sends about a kubelet's Event.
//
//go:embed review.json.tmpl
var reviewText string

const (
	// serialMark and namespaceMark are placeholders in reviewText for the serial number and the number of the namespace. Each has
	// as many bytes as the number that replaces it, which has fewer digits than serials.
	serialMark, namespaceMark = "########", "@@@@@@@@"
	serials                   = 100_000_000
)

// review is the body of an AdmissionReview whose Event can be changed without allocations. It is not safe for concurrent use.
type review struct {
	body          []byte
	serialOffsets []int // of the serial number
	// namespaceOffsets are the offsets of the namespace's number. A namespace has podsOfANamespace pods.
	namespaceOffsets []int
}

// newReview returns the review of a CREATE, or of an UPDATE with which a recorder counts a repeat.
func newReview(update bool) (*review, error) {
	t, err := template.New("review").Parse(reviewText)
	if err != nil {
		return nil, fmt.Errorf("parse the template of the review: %w", err)
	}
	var text, compact bytes.Buffer
	if err := t.Execute(&text, update); err != nil {
		return nil, fmt.Errorf("render the review: %w", err)
	}
	if err := json.Compact(&compact, text.Bytes()); err != nil {
		return nil, fmt.Errorf("render the review: %w", err)
	}
	r := &review{body: compact.Bytes()}
	r.serialOffsets, r.namespaceOffsets = findAll(r.body, serialMark), findAll(r.body, namespaceMark)
	return r, nil
}

// findAll returns the offsets of a placeholder in a text.
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

// clone returns a copy for another goroutine.
func (r *review) clone() *review {
	return &review{body: bytes.Clone(r.body), serialOffsets: r.serialOffsets, namespaceOffsets: r.namespaceOffsets}
}

// withSerial changes the review to the Event with a serial number and returns its body, which is valid until the next call.
func (r *review) withSerial(serial int) []byte {
	r.write(r.serialOffsets, serial)
	r.write(r.namespaceOffsets, serial/podsOfANamespace)
	return r.body
}

// write writes a number at each offset.
func (r *review) write(offsets []int, n int) {
	digits := strconv.AppendInt(make([]byte, 0, 16), int64(serials+n%serials), 10)[1:]
	for _, offset := range offsets {
		copy(r.body[offset:], digits)
	}
}
