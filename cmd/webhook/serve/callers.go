package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"github.com/eventquota/eventquota/admission/callers"
	"github.com/eventquota/eventquota/certs"
)

// callerOptions are the flags that say who may call the webhook.
type callerOptions struct {
	CAFile string
	Names  []string
}

func (o *callerOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.CAFile, "client-ca-file", o.CAFile, "PEM file of the CAs of client certificates, one of which the API server must have to call the webhook; read again when it changes; empty for none")
	f.StringSliceVar(&o.Names, "client-names", o.Names, "common names and DNS names of which such a certificate must have one; empty for any")
}

// validate reports every flag that is out of its range.
func (o *callerOptions) validate() error {
	if len(o.Names) > 0 && o.CAFile == "" {
		return errors.New("--client-names: must not be set without --client-ca-file")
	}
	if slices.Contains(o.Names, "") {
		return errors.New("--client-names: must have no empty name")
	}
	return nil
}

// gatekeeper refuses callers of the webhook's port other than the API server.
type gatekeeper struct {
	certificate *callers.Certificate // nil if none is needed
	managed     *certs.Managed       // knows the secret path; nil where the path is fixed
	refused     func(by string) func(error)
}

// newGatekeeper makes the gatekeeper of the flags, and logs if it lets anyone pass.
func (s *server) newGatekeeper() (*gatekeeper, error) {
	complaints := &rate.Sometimes{Interval: 10 * time.Second}
	g := &gatekeeper{refused: func(by string) func(error) {
		count := s.metrics.Callers.Refused.WithLabelValues(by)
		return func(why error) {
			count.Inc()
			complaints.Do(func() { s.log.Info("Refused a caller that is not the API server", "by", by, "reason", why.Error()) })
		}
	}}
	if o := s.opts.Callers; o.CAFile != "" {
		var err error
		if g.certificate, err = callers.NewCertificate(o.CAFile, o.Names, g.refused("certificate")); err != nil {
			return nil, fmt.Errorf("--client-ca-file: must have PEM certificates: %w", err)
		}
	}
	g.managed, _ = s.certs.(*certs.Managed)
	s.metrics.Repairs(g.repairs)
	s.metrics.Callers.Protected("certificate", g.certificate != nil)
	s.metrics.Callers.Protected("path", g.managed != nil)
	if g.certificate == nil && g.managed == nil {
		s.log.Info("Anyone who reaches the port can send reviews. Set --client-ca-file where the API server has a client certificate for webhooks, or --self-managed-certificates", "port", s.opts.Port)
	}
	return g, nil
}

// run keeps the CAs up to date until ctx ends.
func (g *gatekeeper) run(ctx context.Context) {
	if g.certificate != nil {
		g.certificate.Run(ctx)
	}
}

// secure makes the webhook's port refuse others' connections.
func (g *gatekeeper) secure(c *tls.Config) {
	if g.certificate != nil {
		g.certificate.Demand(c)
	}
}

// before refuses others' calls to next, which is called at fixed paths.
func (g *gatekeeper) before(next http.Handler) http.Handler {
	if g.managed == nil {
		return next
	}
	return (&callers.Path{Accepts: g.managed.Accepts, Refused: g.refused("path")}).Before(next)
}

// callFailed is called after a call that the API server counts as failed; nil for none.
func (g *gatekeeper) callFailed() func() {
	if g.managed == nil {
		return nil
	}
	return g.managed.CallFailed
}

func (g *gatekeeper) repairs() int64 {
	if g.managed == nil {
		return 0
	}
	return g.managed.Repairs()
}
