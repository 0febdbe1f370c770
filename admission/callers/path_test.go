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

	"go.uber.org/goleak"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// discardLog is the log of a server whose clients fail on purpose.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// TestWrongPathIsRefusedBeforeBody holds that nothing but the headers is waited for, that nobody is asked, and that the
// connection ends.
func TestWrongPathIsRefusedBeforeBody(t *testing.T) {
	const segment = "abcdefghijklmnopqrstuvwxyz"
	var called, refused atomic.Int64
	accepts := func(given string) bool { return given == segment }
	s := httptest.NewServer(RequirePath(accepts, func(error) { refused.Add(1) }, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called.Add(1)
		if r.URL.Path != "/mutate" || strings.Contains(r.RequestURI, segment) {
			t.Errorf("next is called at %s, and knows %q", r.URL.Path, r.RequestURI)
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
			// Only one that fails takes as long.
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
				t.Errorf("%s: status %d, %d calls, %d refused", target, response.StatusCode, called.Load(), refused.Load())
			}
			// A reset says that it ends, too: a byte of the body was not read.
			if _, err := reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: the connection goes on: %v", target, err)
			}
		}
	}

	response, err := http.Post(s.URL+"/mutate/"+segment+"?timeout=1s", "application/json", strings.NewReader("{}")) //nolint:noctx // the server is here
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || called.Load() != 1 {
		t.Errorf("the segment gets status %d", response.StatusCode)
	}
}
