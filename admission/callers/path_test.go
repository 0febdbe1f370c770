package callers

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that the tests leave no goroutine running.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// discardLog returns the error log for a server whose clients fail on purpose.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// TestWrongPathIsRefusedBeforeBody checks that the answer does not wait for the body, that next is not called, and that the
// connection is closed.
func TestWrongPathIsRefusedBeforeBody(t *testing.T) {
	const segment = "abcdefghijklmnopqrstuvwxyz"
	var called, refused atomic.Int64
	accepts := func(given string) bool { return given == segment }
	s := httptest.NewServer(RequirePath(accepts, func(error) { refused.Add(1) }, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called.Add(1)
		if r.URL.Path != "/mutate" || strings.Contains(r.RequestURI, segment) {
			t.Errorf("next got path %s and RequestURI %q, want /mutate and no segment", r.URL.Path, r.RequestURI)
		}
	})))
	t.Cleanup(s.Close)
	var n int64
	for _, target := range []string{
		"/mutate", "/", "*", "//", "/mutate/", "/mutate/x", "/mutate/" + strings.ToUpper(segment), "/mutate/" + segment + "/",
		"/mutate/" + segment + "/x", "/mutate/x%2F" + segment + "%00", "http://webhook", "/mutate//x", "/mutate?" + segment,
	} {
		for _, sent := range []string{incompleteRequest, strings.Replace(incompleteRequest, "100000\r\n\r\n{", "0\r\n\r\n", 1)} {
			n++
			connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = connection.Close() })
			// Only a failing test takes this long.
			if err := connection.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err = io.WriteString(connection, strings.Replace(sent, "/mutate", target, 1)); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(connection)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusNotFound || called.Load() != 0 || refused.Load() != n {
				t.Errorf("%s: got status %d, %d calls, %d refused, want 404, no call and %d refused", target, response.StatusCode, called.Load(), refused.Load(), n)
			}
			// A reset also means that the connection is closed: the server did not read the whole body.
			if _, err := reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: the connection stays open: %v", target, err)
			}
		}
	}

	response, err := http.Post(s.URL+"/mutate/"+segment+"?timeout=1s", "application/json", strings.NewReader("{}")) //nolint:noctx // the server is in this process
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || called.Load() != 1 {
		t.Errorf("got status %d and %d calls for the right segment, want 200 and one", response.StatusCode, called.Load())
	}
}
