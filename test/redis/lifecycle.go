package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	readyWithin = 30 * time.Second
	pollEvery   = 20 * time.Millisecond
)

// Running reports whether the process runs. It may be paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.running()
}

// Launch starts the process if it does not run. It does not wait until the server answers, see WaitReady.
func (s *Server) Launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process.running() {
		return nil
	}
	p, err := launch(s.logFile(), append([]string{s.config()}, s.args...)...)
	if err == nil {
		s.process = p
	}
	return err
}

// WaitReady waits up to 30 seconds until the server has loaded its data and answers.
func (s *Server) WaitReady(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, readyWithin, true, func(ctx context.Context) (bool, error) {
		last = s.ping(ctx)
		if last != nil && !s.Running() {
			return false, errors.New("the process has ended")
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for Redis at %s: %w (last error: %w)\n%s", s.Addr(), err, last, s.Log())
	}
	return nil
}

func (s *Server) ping(ctx context.Context) error {
	// The client would log each refused connection.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	_ = conn.Close()
	return s.client.Ping(ctx).Err()
}

// Restart stops the process as Stop does, starts it again at the same address with its persisted data, and waits until it
// answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// Stop ends the process by SIGTERM, if it runs. It must not be paused.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.stop()
}

// Kill ends the process at once by SIGKILL, paused or not.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.kill()
}

// Pause suspends the process by SIGSTOP. Its connections stay open, and it does not answer until Resume.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume continues a paused process by SIGCONT.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.running() {
		return fmt.Errorf("signal Redis at %s: it does not run", s.Addr())
	}
	return s.process.signal(signal)
}
