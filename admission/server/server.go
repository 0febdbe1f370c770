// Package server is a webhook server for managers of controller-runtime. It implements their webhook.Server, and bounds connections,
// headers, times and the duration of a stop, which the Server of controller-runtime does not.
//
// It also has the parts of a bounded HTTP server for other endpoints.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/eventquota/eventquota/admission/connections"
)

const (
	// DefaultMaxConnections is the default of Options.MaxConnections. An API server uses a connection for each call in flight. With the
	// longest body or headers of a review, each takes about 200 KiB.
	DefaultMaxConnections = 1024
	// DefaultGrace is the default of Options.Grace: longer than the deadline of a review.
	DefaultGrace = 3 * time.Second
)

// Options configures a Server.
type Options struct {
	// Address is the host and port to listen on. An empty host means all addresses.
	Address string
	// GetCertificate returns the serving certificate of a TLS handshake.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// RequireClient, if set, makes TLS handshakes require a client certificate; callers.CertificateVerifier has such a method.
	RequireClient func(*tls.Config)
	// Authenticate, if set, wraps the handler of all paths, and refuses callers other than the API server; callers.RequirePath does.
	// The connections of callers that it refuses give way to others first.
	Authenticate func(http.Handler) http.Handler
	// MaxConnections bounds the open connections: 2 or more, or 0 for DefaultMaxConnections. Clients that have made no call get at most
	// half of them.
	MaxConnections int
	// OnRefused, if set, is called for each connection that a bound closes.
	OnRefused func()
	// CallsPerConnection is the average number of calls after which a connection ends, so that calls spread over replicas; 0 means never.
	CallsPerConnection int
	// ShutdownDelay is how long a stop continues to serve calls, of which each ends its connection. Meanwhile API servers learn that this
	// replica is not ready.
	ShutdownDelay time.Duration
	// Grace is how long a stop then waits for running calls. 0 means DefaultGrace.
	Grace time.Duration
}

// Server serves webhooks by HTTPS. It is safe for concurrent use. Call Start once.
type Server struct {
	options             Options
	mux                 *http.ServeMux
	listening, draining atomic.Bool
}

// New returns a Server without webhooks. The constructor of a manager takes it as its WebhookServer.
func New(o Options) *Server {
	o.MaxConnections, o.Grace = cmp.Or(o.MaxConnections, DefaultMaxConnections), cmp.Or(o.Grace, DefaultGrace)
	if o.OnRefused == nil {
		o.OnRefused = func() {}
	}
	return &Server{options: o, mux: http.NewServeMux()}
}

// NeedLeaderElection returns false: every replica serves webhooks.
func (*Server) NeedLeaderElection() bool { return false }

// Register serves a webhook at a path. It panics if the path is taken. An admission.Handler bounds the bytes that it reads of a body;
// webhook.Admission reads up to 7 MB.
func (s *Server) Register(path string, hook http.Handler) { s.mux.Handle(path, hook) }

// WebhookMux returns the mux of all paths.
func (s *Server) WebhookMux() *http.ServeMux { return s.mux }

var (
	errNotListening = errors.New("not started yet, or stopped")
	errDraining     = errors.New("stopping")
)

// StartedChecker returns a check that succeeds while the server listens and does not drain. It opens no connection.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		switch {
		case s.draining.Load():
			return errDraining
		case !s.listening.Load():
			return errNotListening
		}
		return nil
	}
}

// Drain makes each further answer end its connection, and StartedChecker fail. Start does so when its ctx ends.
func (s *Server) Drain() { s.draining.Store(true) }

// Start serves until ctx ends, and then for ShutdownDelay. Running calls then have Grace to complete, and the remaining connections are
// closed. It logs problems of connections to the logger of ctx.
func (s *Server) Start(ctx context.Context) error {
	l, err := Listen(ctx, s.options.Address, s.options.MaxConnections, s.options.OnRefused)
	if err != nil {
		return err
	}
	config := TLSConfig(l, s.options.GetCertificate)
	if s.options.RequireClient != nil {
		s.options.RequireClient(config)
	}
	s.listening.Store(true)
	defer s.listening.Store(false)
	return s.serve(ctx, tls.NewListener(l, config))
}

// serve serves the connections that l accepts, until ctx has ended and the server has drained.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		s.Drain()
		time.AfterFunc(s.options.ShutdownDelay, stop)
	})()
	return ServeUntil(serving, newHTTP(serving, s.handler()), l, s.options.Grace)
}

// handler returns the handler of all calls.
func (s *Server) handler() http.Handler {
	h := connections.MarkServed(connections.Recycle(s.mux, s.options.CallsPerConnection, &s.draining))
	if s.options.Authenticate != nil {
		h = s.options.Authenticate(h)
	}
	return h
}

// newHTTP returns the server for calls of the API server. An API server may open a connection ahead of its first call, and a
// call on a connection that is just being closed fails. So a new connection may wait as long as an idle one. WriteTimeout is the
// shortest timeout, and net/http applies the shortest to the TLS handshake. Reviews set their own write deadline.
func newHTTP(ctx context.Context, h http.Handler) *http.Server {
	srv := NewHTTP(ctx, h)
	srv.ReadHeaderTimeout, srv.WriteTimeout = srv.IdleTimeout, srv.ReadHeaderTimeout
	srv.MaxHeaderBytes = 2 << 10 // net/http accepts 4 KiB more; many short headers use a multiple of that in memory
	return srv
}
