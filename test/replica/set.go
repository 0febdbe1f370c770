package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/eventquota/eventquota/test/cluster"
)

// Set is several replicas behind one Service, which the API server calls. Its test must be isolated,
// see cluster.RunIsolated, on a cluster with Options.Services. Its methods are not safe for concurrent use. Other
// goroutines may write Events meanwhile.
type Set struct {
	// Replicas are the replicas, by index. A killed or stopped replica remains here, with its log, until Restart
	// replaces it.
	Replicas []*Replica

	cluster    *cluster.Cluster
	service    *service
	path       string
	flags      []string
	kubeconfig string
	certDir    string
	ca         []byte
	ready      []bool // whether each replica is an endpoint of the Service
}

// StartSet starts n replicas, 1 to 200, of the webhook program at path with the given flags of serve, and makes all
// of them ready endpoints of the Service. The API server calls them only after Install. A cluster can have only one
// Set.
func StartSet(ctx context.Context, c *cluster.Cluster, path string, n int, flags ...string) (*Set, error) {
	// Kubeconfig also creates the Service.
	kubeconfig, err := Kubeconfig(ctx, c)
	if err != nil {
		return nil, err
	}
	service, err := newService(ctx, c)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "set-")
	if err != nil {
		return nil, fmt.Errorf("make the replicas' directory: %w", err)
	}
	// All replicas share a certificate, as from a Secret.
	ca, err := cluster.ServingCertificate(dir, cluster.ServiceName+"."+cluster.ServiceNamespace+".svc")
	if err != nil {
		return nil, err
	}
	s := &Set{
		Replicas: make([]*Replica, n), ready: make([]bool, n),
		cluster: c, service: service, path: path, flags: flags, kubeconfig: kubeconfig, certDir: dir, ca: ca,
	}
	var starts errgroup.Group
	for i := range n {
		starts.Go(func() (err error) {
			s.Replicas[i], err = s.start(ctx, i)
			return err
		})
	}
	if err := starts.Wait(); err != nil {
		s.Close()
		return nil, err
	}
	for i := range n {
		s.ready[i] = true
	}
	if err := s.route(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Install makes the API server call the Service in both phases.
func (s *Set) Install(ctx context.Context) error {
	return s.cluster.InstallWebhooks(ctx, cluster.Webhooks{
		CABundle: s.ca, ExemptUser: User, Mutating: true, Validating: true, TimeoutSeconds: callTimeoutSeconds,
	})
}

// InstallShipped is Install with the shipped timeout: a call that takes longer fails open, and its Event is stored
// without a decision.
func (s *Set) InstallShipped(ctx context.Context) error {
	return s.cluster.InstallWebhooks(ctx, cluster.Webhooks{CABundle: s.ca, ExemptUser: User, Mutating: true, Validating: true})
}

// Hang suspends replica i and leaves it a ready endpoint of the Service. Calls that reach it are never answered.
func (s *Set) Hang(i int) error { return s.Replicas[i].process.Process.Signal(syscall.SIGSTOP) }

// Kill ends replica i by SIGKILL and then removes it from the Service, like Kubernetes. Calls to it fail until the
// API server notices.
func (s *Set) Kill(ctx context.Context, i int) error {
	s.Replicas[i].Kill()
	s.ready[i] = false
	return s.route(ctx)
}

// Pause suspends replica i and removes it from the Service, as Kubernetes does when its probes fail. Calls that have
// reached it hang.
func (s *Set) Pause(ctx context.Context, i int) error {
	s.ready[i] = false
	return errors.Join(s.Replicas[i].process.Process.Signal(syscall.SIGSTOP), s.route(ctx))
}

// Resume resumes replica i after Pause.
func (s *Set) Resume(ctx context.Context, i int) error {
	s.ready[i] = true
	return errors.Join(s.Replicas[i].process.Process.Signal(syscall.SIGCONT), s.route(ctx))
}

// Stop removes replica i from the Service and ends it by SIGTERM. The replica writes
// its pending counts before it exits.
func (s *Set) Stop(ctx context.Context, i int) error {
	s.ready[i] = false
	return errors.Join(s.route(ctx), s.Replicas[i].Stop())
}

// Restart starts replica i again after Kill or Stop and makes it a ready endpoint. It has the same address, the flags
// of the set and the given flags.
func (s *Set) Restart(ctx context.Context, i int, flags ...string) error {
	started, err := s.start(ctx, i, flags...)
	if err != nil {
		return err
	}
	s.Replicas[i], s.ready[i] = started, true
	return s.route(ctx)
}

// SetReady adds replica i to the ready endpoints of the Service or removes it. It does not affect the process.
func (s *Set) SetReady(ctx context.Context, i int, ready bool) error {
	s.ready[i] = ready
	return s.route(ctx)
}

// Leader returns the index of the replica that writes pending counts for all, or -1 if there is none.
func (s *Set) Leader(ctx context.Context) (int, error) {
	for i, r := range s.Replicas {
		select {
		case <-r.exited:
			continue
		default:
		}
		leads, err := r.IsLeader(ctx)
		if err != nil {
			return -1, err
		}
		if leads {
			return i, nil
		}
	}
	return -1, nil
}

// Close kills all replicas.
func (s *Set) Close() {
	for _, r := range s.Replicas {
		if r != nil {
			r.Kill()
		}
	}
}

func (s *Set) start(ctx context.Context, i int, flags ...string) (*Replica, error) {
	return startOn(ctx, s.cluster, endpoint{
		host: s.cluster.PodIP(i), port: s.service.webhookPort(), health: 8081, metrics: 8080,
		kubeconfig: s.kubeconfig, certDir: s.certDir, ca: s.ca,
	}, s.path, slices.Concat(s.flags, flags))
}

// route updates the ready endpoints of the Service.
func (s *Set) route(ctx context.Context) error {
	var ready []string
	for i := range s.Replicas {
		if s.ready[i] {
			ready = append(ready, s.cluster.PodIP(i))
		}
	}
	return s.service.route(ctx, ready)
}
