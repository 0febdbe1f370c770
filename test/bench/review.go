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
	// serialMark stands in reviewText where a review carries its serial number, and has as
	// many bytes.
	serialMark = "########"
	serials    = 100_000_000
)

// review is the body of an AdmissionReview that can be made to be about one
// Event after the other. It is for one goroutine.
type review struct {
	body  []byte
	marks []int // where the serial number is
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
	for from := 0; ; {
		at := bytes.Index(r.body[from:], []byte(serialMark))
		if at < 0 {
			return r, nil
		}
		r.marks = append(r.marks, from+at)
		from += at + len(serialMark)
	}
}

// clone is a review for another goroutine.
func (r *review) clone() *review { return &review{body: bytes.Clone(r.body), marks: r.marks} }

// number makes the review that of another Event and returns its body, which
// the next call changes.
func (r *review) number(serial int) []byte {
	digits := strconv.AppendInt(make([]byte, 0, 16), int64(serials+serial%serials), 10)[1:]
	for _, at := range r.marks {
		copy(r.body[at:], digits)
	}
	return r.body
}
