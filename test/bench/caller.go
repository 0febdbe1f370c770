package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"
)

// patience is how long a review may take: one that is late must not fail a measurement.
const patience = 30 * time.Second

// reviewURL is what the API server asks for; the path does not matter here.
const reviewURL = "/review?timeout=30s"

// caller calls a handler with one Event after the other, without a network and without any
// allocation of its own.
type caller struct {
	handler http.Handler
	review  *review
	request *http.Request
	body    bytes.Reader
	answer  recorder
}

func newCaller(ctx context.Context, handler http.Handler, r *review) *caller {
	c := &caller{handler: handler, review: r, answer: recorder{httptest.NewRecorder()}}
	c.request = httptest.NewRequestWithContext(ctx, http.MethodPost, reviewURL, bytes.NewReader(r.body))
	c.request.Header.Set("Content-Type", "application/json")
	c.request.Body = io.NopCloser(&c.body)
	return c
}

func (c *caller) call(serial int) error {
	c.body.Reset(c.review.number(serial))
	c.answer.Body.Reset()
	c.handler.ServeHTTP(c.answer, c.request)
	return allowed(c.answer.Code, c.answer.Body.Bytes())
}

// allowed fails where the answer to a review is another than to allow.
func allowed(status int, body []byte) error {
	if status != http.StatusOK || !bytes.Contains(body, []byte(`"allowed":true`)) {
		return fmt.Errorf("answered with status %d: %s", status, body)
	}
	return nil
}

// recorder has deadlines, as the writers of net/http's servers do.
type recorder struct{ *httptest.ResponseRecorder }

// SetReadDeadline does nothing.
func (recorder) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (recorder) SetWriteDeadline(time.Time) error { return nil }
