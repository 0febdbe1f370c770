// Package redistest starts real redis-server processes on loopback for tests and measurements: alone, with Sentinel, or as a
// Cluster. They are independent of a Redis service of the machine, end with the process that started them, and can be
// killed, paused and restarted.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/test/ports"
)

// startsTried is how many ports are tried if a program that does not use package ports takes the chosen one first.
const startsTried = 5

// Server is a redis-server on 127.0.0.1. Its address and directory never change. It is safe for concurrent use.
type Server struct {
	// Dir is the directory of its data, configuration and log.
	Dir string
	// Certs are the certificates of the server and its clients; nil without TLS.
	Certs *Certs

	args   []string // of redis-server, after the configuration file
	port   int
	client *redis.Client

	mu      sync.Mutex // held while the process starts or ends
	process *process
}

// New starts a standalone server and waits up to 30 seconds until it answers. It runs until Close or the end of this process.
func New(ctx context.Context, o Options) (*Server, error) {
	return newServer(ctx, o, data)
}

// newServer starts a server with the configuration that lines returns for a port.
func newServer(ctx context.Context, o Options, lines func(o *Options, port int) []string, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, fmt.Errorf("create a directory for Redis: %w", err)
	}
	s := &Server{Dir: dir, args: args}
	if o, err = o.withCerts(dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Certs = o.certs
	for range startsTried {
		if err = s.start(ctx, &o, lines); err == nil {
			return s, nil
		}
		log := s.Log()
		s.Kill()
		if !strings.Contains(log, "Address already in use") {
			break
		}
	}
	return nil, errors.Join(err, s.Close())
}

// start starts the server on a new port.
func (s *Server) start(ctx context.Context, o *Options, lines func(o *Options, port int) []string) error {
	if s.client != nil {
		ports.Release(s.port)
		_ = s.client.Close()
	}
	config, err := s.Certs.client()
	if err != nil {
		return err
	}
	if s.port, err = ports.Acquire(); err != nil {
		return err
	}
	s.client = redis.NewClient(&redis.Options{
		Addr: s.Addr(), Password: o.Password, TLSConfig: config, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: time.Second, ReadTimeout: 2 * time.Second, ContextTimeoutEnabled: true,
	})
	content := strings.Join(append(lines(o, s.port), "dir "+quote(s.Dir)), "\n") + "\n"
	if err := os.WriteFile(s.config(), []byte(content), 0o600); err != nil {
		return err
	}
	return s.Restart(ctx)
}

func (s *Server) config() string  { return filepath.Join(s.Dir, "redis.conf") }
func (s *Server) logFile() string { return filepath.Join(s.Dir, "log") }

// Addr returns the host and port.
func (s *Server) Addr() string { return ports.Address(s.port) }

// Client returns a client of the default user, which has all rights. The server owns it. It retries no command.
func (s *Server) Client() *redis.Client { return s.client }

// Log returns the end of the log of all its runs, at most 32 KiB.
func (s *Server) Log() string { return tail(s.logFile()) }

// Close kills the process and removes its directory.
func (s *Server) Close() error {
	s.Kill()
	if s.client != nil {
		ports.Release(s.port)
		_ = s.client.Close()
	}
	return os.RemoveAll(s.Dir)
}
