package serve

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/eventquota/eventquota/admission/callers"
	"github.com/eventquota/eventquota/certs"
)

// gatekeeper refuses callers of the webhook's port other than the API server.
type gatekeeper struct {
	certificate *callers.Certificate // nil if none is needed
	path        *callers.Path        // nil where the path is fixed
	callFailed  func()               // after a call that the API server counts as failed; nil for none
}

// newGatekeeper makes the gatekeeper of the flags, and logs if it lets anyone pass.
func (s *server) newGatekeeper() (*gatekeeper, error) {
	complaints := &rate.Sometimes{Interval: 10 * time.Second}
	refused := func(by string) func(error) {
		count := s.metrics.Callers.Refused.WithLabelValues(by)
		return func(why error) {
			count.Inc()
			complaints.Do(func() { s.log.Info("Refused a caller that is not the API server", "by", by, "reason", why.Error()) })
		}
	}
	g := &gatekeeper{}
	if file := s.opts.ClientCAFile; file != "" {
		var err error
		if g.certificate, err = callers.NewCertificate(file, s.opts.ClientNames, refused("certificate")); err != nil {
			return nil, fmt.Errorf("--client-ca-file: must have PEM certificates: %w", err)
		}
	}
	repairs := func() int64 { return 0 }
	if managed, ok := s.certs.(*certs.Managed); ok {
		repairs = managed.Repairs
		g.path = &callers.Path{Accepts: managed.Accepts, Refused: refused("path")}
		g.callFailed = managed.CallFailed
	}
	s.metrics.Repairs(repairs)
	s.metrics.Callers.Protected("certificate", g.certificate != nil)
	s.metrics.Callers.Protected("path", g.path != nil)
	if g.certificate == nil && g.path == nil {
		s.log.Info("Anyone who reaches the port can send reviews. Set --client-ca-file where the API server has a client certificate for webhooks, or --self-managed-certificates", "port", s.opts.Port)
	}
	return g, nil
}
