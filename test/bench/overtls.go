package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
)

// callersPerCPU is the number of concurrent callers over TLS for each processor.
const callersPerCPU = 4

// overTLS is a benchmark that calls the handler over TLS and HTTP/1.1, as the API server calls a webhook through a Service. Each caller
// has a connection. Callers and handler share the process.
func (c contender) overTLS(b *testing.B) error {
	b.Helper()
	handler, r, err := c.prepare()
	if err != nil {
		return err
	}
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = callersPerCPU * runtime.GOMAXPROCS(0)
	if err := post(b.Context(), client, server.URL, r.withSerial(0)); err != nil { // connects
		return err
	}
	var serial atomic.Int64
	var failed atomic.Pointer[error]
	b.SetParallelism(callersPerCPU)
	b.ResetTimer()
	b.RunParallel(func(more *testing.PB) {
		review := r.clone()
		for more.Next() {
			if err := post(b.Context(), client, server.URL, review.withSerial(int(serial.Add(1)))); err != nil {
				failed.Store(&err)
				return
			}
		}
	})
	b.StopTimer()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// post sends a review and returns an error unless the answer allows it.
func post(ctx context.Context, client *http.Client, url string, review []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+reviewURL, bytes.NewReader(review))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("send the review: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return checkAllowed(response.StatusCode, body)
}
