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

// reviewTimeout is the deadline of a review. It is long, so that a slow review does not fail a measurement.
const reviewTimeout = 30 * time.Second

// reviewURL has the timeout parameter that the API server sends. The handlers ignore the path.
const reviewURL = "/review?timeout=30s"

// handlerCaller calls a handler in process, once for each Event. It does not allocate, so all measured allocations are the handler's.
// It is not safe for concurrent use.
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

// call sends the review of the Event with a serial number, and returns an error unless it is allowed.
func (c *handlerCaller) call(serial int) error {
	c.body.Reset(c.review.withSerial(serial))
	c.answer.Body.Reset()
	c.handler.ServeHTTP(c.answer, c.request)
	return checkAllowed(c.answer.Code, c.answer.Body.Bytes())
}

// checkAllowed returns an error unless the response allows the request.
func checkAllowed(status int, body []byte) error {
	if status != http.StatusOK || !bytes.Contains(body, []byte(`"allowed":true`)) {
		return fmt.Errorf("got status %d, want an answer that allows: %s", status, body)
	}
	return nil
}

// recorder accepts deadlines, as the ResponseWriter of a net/http server does.
type recorder struct{ *httptest.ResponseRecorder }

// SetReadDeadline ignores the deadline.
func (recorder) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline ignores the deadline.
func (recorder) SetWriteDeadline(time.Time) error { return nil }
