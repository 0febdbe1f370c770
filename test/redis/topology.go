package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/wait"
)

// waitUntil polls for up to 30 seconds until check returns no error. Its own error has the last one of check.
func waitUntil(ctx context.Context, check func(context.Context) error) error {
	last := errors.New("no answer")
	err := wait.PollUntilContextTimeout(ctx, pollEvery, readyWithin, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			last = err // a timeout would hide the cause
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// inSync returns an error unless the master has the given number of replicas and the servers are in sync with it.
func inSync(ctx context.Context, servers []*Server, master *Server, replicas int) error {
	for _, s := range servers {
		info, err := s.client.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if s == master {
			if !strings.Contains(info, "role:master") || !strings.Contains(info, fmt.Sprintf("connected_slaves:%d\r", replicas)) {
				return fmt.Errorf("the master at %s lacks replicas:\n%s", s.Addr(), info)
			}
			continue
		}
		if !strings.Contains(info, fmt.Sprintf("master_port:%d\r", master.port)) || !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("the replica at %s is not in sync:\n%s", s.Addr(), info)
		}
	}
	return nil
}

func running(servers []*Server) []*Server {
	var up []*Server
	for _, s := range servers {
		if s.Running() {
			up = append(up, s)
		}
	}
	return up
}

// at returns the running server at an address.
func at(servers []*Server, addr string) (*Server, error) {
	for _, s := range running(servers) {
		if s.Addr() == addr {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no Redis runs at %q", addr)
}

func addrs(servers []*Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}
