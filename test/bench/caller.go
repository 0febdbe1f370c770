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

// reviewTimeout is how long a review may take: one that is late must not fail a measurement.
const reviewTimeout = 30 * time.Second

// reviewURL is what the API server asks for; the path does not matter here.
const reviewURL = "/review?timeout=30s"

// handlerCaller calls a handler with one Event after the other, without a network and without any
// allocation of its own.
type handlerCaller struct {
	handler http.Handler
	review  *review
	request *http.Request
	body    bytes.Reader
	answer  recorder
}

func newHandlerCaller(ctx context.Context, handler http.Handler, r *review) *handlerCaller {
	c := &handlerCaller{handler: handler, review: r, answer: recorder{httptest.NewRecorder()}}
	c.request = httptest.NewRequestWithContext(ctx, http.MethodPost, reviewURL, bytes.NewReader(r.body))
	c.request.Header.Set("Content-Type", "application/json")
	c.request.Body = io.NopCloser(&c.body)
	return c
}

func (c *handlerCaller) call(serial int) error {
	c.body.Reset(c.review.withSerial(serial))
	c.answer.Body.Reset()
	c.handler.ServeHTTP(c.answer, c.request)
	return checkAllowed(c.answer.Code, c.answer.Body.Bytes())
}

// checkAllowed fails where the answer to a review is another than to allow.
func checkAllowed(status int, body []byte) error {
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
