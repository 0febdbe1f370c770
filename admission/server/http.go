package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/admission/connections"
)

// bodyTimeout bounds the time in which a body arrives, also one that no handler reads, as net/http waits for it. A review has its
// own bound. answerTimeout bounds the time from the headers of a request to the end of its answer. A profile has its own time in addition.
const bodyTimeout, answerTimeout = 5 * time.Second, 30 * time.Second

// Listen listens at an address, with at most limit connections. refused is called for each connection that the bound closes.
func Listen(ctx context.Context, address string, limit int, refused func()) (*connections.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return connections.Limit(l, limit, refused), nil
}

// TLSConfig returns the TLS configuration of connections that l accepts. It disables HTTP/2, so that a connection has one request at a
// time. A scrape needs no more, and API servers call a Service by HTTP/1.1 anyway.
func TLSConfig(l *connections.Listener, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: certificate,
		NextProtos:     []string{"http/1.1"},
	}
	l.LimitHandshakes(config)
	return config
}

// NewHTTP returns a server with bounds for slow clients. It logs to the logger of ctx, and its requests have the values of ctx.
func NewHTTP(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength != 0 { // a read deadline would end the context of a request without a body
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // it fails once the connection has ended
			}
			h.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext:       connections.ConnContext,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       2 * time.Minute, // longer than that of API servers, so that they close an idle connection first
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)), slog.LevelDebug),
	}
}

// ServeUntil serves the connections that l accepts until ctx ends. Running requests then have a grace period to complete, and the
// remaining connections are closed.
func ServeUntil(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if srv.Shutdown(shutdown) != nil {
			_ = srv.Close()
		}
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at %s: %w", l.Addr(), err)
	}
	<-closed
	return nil
}
