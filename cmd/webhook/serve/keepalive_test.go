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

	webhookserver "github.com/eventquota/eventquota/admission/server"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/prom"
)

// TestCallerKeepsConnection opens silent connections from the caller's address up to the limit. The caller's connection stays open,
// except one for a probe, which ends after its response.
func TestCallerKeepsConnection(t *testing.T) {
	for name, selfManaged := range map[string]bool{"without a secret path": false, "with a secret path": true} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer(t)
			s := startServer(t, api, func(o *options) { o.SelfManaged, o.CallsPerConnection = selfManaged, 0 })
			s.ready(t)
			refused := func() float64 { return prom.Sum(t, s.metrics.Gatherer, "eventquota_connections_refused_total") }
			for url, limit := range map[string]int{
				fmt.Sprintf("https://127.0.0.1:%d/mutate%s", s.opts.Port, api.segment(t)): webhookserver.DefaultMaxConnections,
				"http://" + s.opts.MetricsAddress + "/metrics":                            maxOtherConnections,
				"http://" + s.opts.HealthAddress + "/healthz":                             maxOtherConnections,
			} {
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
				if reused := callReusesConnection(t, client, url); reused {
					t.Errorf("the first call of %s reused a connection", url)
				}
				before := refused()
				cli.Eventually(t, "connections are refused", func() bool {
					for range limit + 1 {
						c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.Split(url, "/")[2])
						if err != nil {
							t.Fatal(err)
						}
						defer c.Close()
					}
					return refused() > before
				})
				if reused, want := callReusesConnection(t, client, url), !strings.HasSuffix(url, "/healthz"); reused != want {
					t.Errorf("the next call of %s reused its connection: %t, want %t", url, reused, want)
				}
				client.CloseIdleConnections()
			}
			s.end(t)
		})
	}
}

// callReusesConnection sends a review that needs no decision, and reports whether it reused a connection.
func callReusesConnection(t *testing.T, client *http.Client, url string) (reused bool) {
	t.Helper()
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	const review = `{"kind": "AdmissionReview", "request": {"uid": "1", "operation": "DELETE", "kind": {"kind": "Event"}}}`
	request, err := http.NewRequestWithContext(trace, http.MethodPost, url, strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s answers %d, error %v, want 200", url, response.StatusCode, err)
	}
	return reused
}
