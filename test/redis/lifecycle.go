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

// Running says whether its process has not ended; it may be paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.running()
}

// Launch starts the process if it does not run, and does not wait until it
// answers: see WaitReady.
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

// WaitReady waits until it answers and has loaded its data, 30 seconds at most.
func (s *Server) WaitReady(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, readyWithin, true, func(ctx context.Context) (bool, error) {
		last = s.ping(ctx)
		if last != nil && !s.Running() {
			return false, errors.New("it has ended")
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for redis at %s: %w (last answer: %w)\n%s", s.Addr(), err, last, s.Log())
	}
	return nil
}

func (s *Server) ping(ctx context.Context) error {
	// The client would log each connection that is refused.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	_ = conn.Close()
	return s.client.Ping(ctx).Err()
}

// Restart ends the process in order if it runs, starts it again at the same
// address with what it has persisted, and waits until it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// Stop ends the process in order, by SIGTERM. It must not be paused.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.stop()
}

// Kill ends the process at once, by SIGKILL, paused or not.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.kill()
}

// Pause stops the process from running, by SIGSTOP: its connections stay open,
// and nothing is answered until Resume.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on, by SIGCONT.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.process.running() {
		return fmt.Errorf("redis at %s does not run", s.Addr())
	}
	return s.process.signal(signal)
}
