package admission_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestABodyThatNeverEnds sends half a review over a real connection and keeps
// the other half. The call ends with its time, and gives back its place.
func TestABodyThatNeverEnds(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("over HTTP/2: %t", http2), func(t *testing.T) {
			t.Parallel()
			h := serve(newMemory(t))
			web := httptest.NewUnstartedServer(h.mutate)
			web.EnableHTTP2 = http2
			web.StartTLS()
			defer web.Close()
			review := reviewOf(t, newRequest(time.Now(), "a", nil))
			body, rest := io.Pipe()
			end := func() { _ = rest.Close() } // never fails
			defer end()
			defer time.AfterFunc(patience, end).Stop()
			go func() { _, _ = rest.Write(review[:len(review)/2]) }()
			began := time.Now()
			status, err := send(t, web, body)
			if err != nil || status != http.StatusBadRequest {
				t.Errorf("status %d, error %v, want %d", status, err, http.StatusBadRequest)
			}
			if took := time.Since(began); took < 4500*time.Millisecond || took >= patience {
				t.Errorf("answered after %v, want soon after 4.5s", took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if !h.mutate.InFlight.AllFree(ctx) {
				t.Error("its place is not given back")
			}
		})
	}
}

// patience is how long a busy machine may take for what should happen at once.
const patience = 30 * time.Second

// send posts a body to a server that is given 5s to answer, and has 500ms of these for the way back.
func send(t *testing.T, web *httptest.Server, body io.Reader) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/?timeout=5s", body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := web.Client().Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}
