package admission_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/cli"
)

// TestABodyThatNeverEnds sends half a review over a real connection and keeps the other half. The call ends with the
// time for its body, and holds none of the places to be decided in meanwhile.
func TestABodyThatNeverEnds(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		query    string
		length   int
		deadline time.Duration
		want     time.Duration
	}{
		"of a short one":            {"?timeout=9000h", 0, 0, time.Second},
		"of a long one":             {"?timeout=9000h", 300 << 10, 0, time.Second},
		"as long as decisions have": {"?timeout=9000h", 0, 1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			h := serveIn(newMemory(t), 10)
			h.mutate.Deadline = tt.deadline
			web := httptest.NewTLSServer(h.mutate)
			defer web.Close()
			body, rest := io.Pipe()
			end := func() { _ = rest.Close() } // never fails
			defer end()
			defer time.AfterFunc(patience, end).Stop()
			review := reviewOf(t, newRequest(time.Now(), "a", nil))
			go func() { _, _ = rest.Write(append(bytes.Repeat([]byte(" "), tt.length), review[:len(review)/2]...)) }()
			began := time.Now()
			status, err := send(t, web, tt.query, body)
			if err != nil || status != http.StatusBadRequest {
				t.Errorf("status %d, error %v, want %d", status, err, http.StatusBadRequest)
			}
			if took := time.Since(began); took < tt.want || took >= patience {
				t.Errorf("answered after %v, want soon after %v", took, tt.want)
			}
			cli.Eventually(t, "its places are given back", h.mutate.InFlight.AllFree)
		})
	}
}

// TestWhatIsRefusedIsNotReadOn holds that a call which is answered before its body was read costs no more of it, and
// no more of the time that it claims: its connection ends.
func TestWhatIsRefusedIsNotReadOn(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		method, query, contentType string
		length                     int64
		want                       int
	}{
		"a bad timeout":        {http.MethodPost, "?timeout=soon", "application/json", 1 << 10, http.StatusBadRequest},
		"another method":       {http.MethodPut, "", "application/json", 1 << 10, http.StatusMethodNotAllowed},
		"another content type": {http.MethodPost, "", "text/plain", 1 << 10, http.StatusUnsupportedMediaType},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			h := serveIn(newMemory(t), 10)
			h.mutate.InFlight.TakeAll()
			web := httptest.NewTLSServer(h.mutate)
			defer web.Close()
			c := dialTLS(t, web)
			fmt.Fprintf(c, "%s /%s HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n{", tt.method, tt.query, tt.contentType, tt.length)
			status, closed := answerOf(t, c)
			if status != tt.want || !closed {
				t.Errorf("status %d, connection closed: %t, want %d and true", status, closed, tt.want)
			}
		})
	}
}

// patience is how long a busy machine may take for what should happen at once.
const patience = 30 * time.Second

// send posts a body to a server.
func send(t *testing.T, web *httptest.Server, query string, body io.Reader) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/"+query, body)
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

// dialTLS is a connection to a server, of which nothing was used yet.
func dialTLS(t *testing.T, web *httptest.Server) net.Conn {
	t.Helper()
	c, err := (&tls.Dialer{Config: web.Client().Transport.(*http.Transport).TLSClientConfig}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(6 * time.Second)); err != nil { // less than a body may take
		t.Fatal(err)
	}
	return c
}

// answerOf is the status of the answer that comes, and whether the server has closed the connection after it.
func answerOf(t *testing.T, c net.Conn) (status int, closed bool) {
	t.Helper()
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	_, err = reader.ReadByte()
	return response.StatusCode, err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
