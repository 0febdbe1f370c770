package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

// TestCallerKeepsConnection has silent connections, from the address of the caller, take all places that there are. A probe holds
// none: its connection ends with the answer.
func TestCallerKeepsConnection(t *testing.T) {
	for says, selfManaged := range map[string]bool{"that anyone may call": false, "with a path that nobody can guess": true} {
		t.Run(says, func(t *testing.T) {
			api := newAPIServer(t)
			s := startServer(t, api, func(o *options) { o.SelfManaged, o.CallsPerConnection = selfManaged, 0 })
			s.ready(t)
			refused := func() float64 { return prom.Sum(t, s.metrics.Gatherer, "eventquota_connections_refused_total") }
			for url, most := range map[string]int{
				fmt.Sprintf("https://127.0.0.1:%d/mutate%s", s.opts.Port, api.segment(t)): maxConnections,
				"http://" + s.opts.MetricsAddress + "/metrics":                            maxOtherConnections,
				"http://" + s.opts.HealthAddress + "/healthz":                             maxOtherConnections,
			} {
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
				if again := callReusesConnection(t, client, url); again {
					t.Errorf("the first call of %s is on a connection that was there", url)
				}
				before := refused()
				cli.Eventually(t, "all places are taken", func() bool {
					for range most + 1 {
						c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.Split(url, "/")[2])
						if err != nil {
							t.Fatal(err)
						}
						defer c.Close()
					}
					return refused() > before
				})
				if again, want := callReusesConnection(t, client, url), !strings.HasSuffix(url, "/healthz"); again != want {
					t.Errorf("the next call of %s is on the same connection: %t, want %t", url, again, want)
				}
				client.CloseIdleConnections()
			}
			s.end(t)
		})
	}
}

// callReusesConnection sends a review of what is no Event, and reports whether it was on a connection that was there.
func callReusesConnection(t *testing.T, client *http.Client, url string) (again bool) {
	t.Helper()
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { again = got.Reused }})
	const review = `{"kind": "AdmissionReview", "request": {"uid": "1", "operation": "DELETE", "kind": {"kind": "Event"}}}`
	request, err := http.NewRequestWithContext(trace, http.MethodPost, url, strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s answers %d, %v", url, answer.StatusCode, err)
	}
	return again
}
