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

// reviewURL is what the API server asks for; the path does not matter here.
const reviewURL = "/review?timeout=2s"

// caller calls a handler with one Event after the other, without a network.
type caller struct {
	handler http.Handler
	review  *review
	request *http.Request
}

func newCaller(ctx context.Context, handler http.Handler, r *review) *caller {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, reviewURL, bytes.NewReader(r.body))
	request.Header.Set("Content-Type", "application/json")
	return &caller{handler, r, request}
}

func (c *caller) call(serial int) error {
	c.request.Body = io.NopCloser(bytes.NewReader(c.review.number(serial)))
	w := recorder{httptest.NewRecorder()}
	c.handler.ServeHTTP(w, c.request)
	return allowed(w.Code, w.Body.Bytes())
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
