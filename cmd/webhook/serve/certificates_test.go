package serve

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/cli"
)

// TestNotReadyWithoutACertificate holds that a replica that can get no certificate lives and is not
// ready, and one that has one is ready and reports when it expires.
func TestNotReadyWithoutACertificate(t *testing.T) {
	for name, selfManaged := range map[string]bool{"from files": false, "self-managed, but the API server refuses": true} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, newAPIServer(t), func(o *options) {
				if selfManaged {
					o.SelfManaged = true
				}
			})
			o := s.opts
			ready, live := "http://"+o.HealthAddress+"/readyz", "http://"+o.HealthAddress+"/healthz"
			cli.Eventually(t, "live", func() bool { return get(t, live) == http.StatusOK })
			if selfManaged {
				cli.Eventually(t, "a check of the certificate", func() bool {
					return strings.Contains(body(t, ready+"?verbose"), "[-]certificate failed")
				})
				if got := get(t, ready); got != http.StatusInternalServerError {
					t.Errorf("/readyz answers %d without a certificate, want 500", got)
				}
			} else {
				cli.Eventually(t, "ready", func() bool { return get(t, ready) == http.StatusOK })
			}
			if got := expiry(t, s.server); math.IsNaN(got) != selfManaged || got < float64(time.Now().Unix()) {
				t.Errorf("the certificate expires at %f", got)
			}
			s.stop()
			if err := <-s.ended; err != nil {
				t.Errorf("run: %v, want a clean end", err)
			}
		})
	}
}

// expiry is what the metric says.
func expiry(t *testing.T, s *server) float64 {
	t.Helper()
	families, err := s.metrics.Gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "eventquota_certificate_expiry_timestamp_seconds" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric of the expiry")
	return 0
}

// body is what a page says.
func body(t *testing.T, url string) string {
	t.Helper()
	_, says := page(t, url)
	return says
}
