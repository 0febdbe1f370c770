package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// MasterName is the name of the master at its sentinels.
const MasterName = "eventquota"

const (
	sentinels        = 3
	sentinelReplicas = 2
)

// Sentinel is a master with two replicas and three sentinels, which replace a lost master within 2 to 4 seconds.
type Sentinel struct {
	servers   []*Server
	sentinels []*Server
}

// NewSentinel starts the six servers and waits up to 30 seconds until they are ready, see WaitReady. They run until Close or
// the end of this process.
func NewSentinel(ctx context.Context, o Options) (*Sentinel, error) {
	s := &Sentinel{}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start Redis with sentinels: %w", err), s.Close())
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, o Options) error {
	master, err := newServer(ctx, o, data)
	if err != nil {
		return err
	}
	s.servers = append(s.servers, master)
	o.certs = master.Certs
	replica := o
	replica.Lines = append(slices.Clone(o.Lines), fmt.Sprintf("replicaof 127.0.0.1 %d", master.port))
	for range sentinelReplicas {
		server, err := newServer(ctx, replica, data)
		if err != nil {
			return err
		}
		s.servers = append(s.servers, server)
	}
	for range sentinels {
		server, err := newServer(ctx, o, watching(master.port), "--sentinel")
		if err != nil {
			return err
		}
		s.sentinels = append(s.sentinels, server)
		if err := fastSentinel(ctx, server); err != nil {
			return err
		}
	}
	return s.WaitReady(ctx)
}

// watching returns the configuration of a sentinel of the master at a port.
func watching(master int) func(o *Options, port int) []string {
	return func(o *Options, port int) []string {
		lines := append(o.connection(port),
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", MasterName, master, sentinels/2+1),
			fmt.Sprintf("sentinel down-after-milliseconds %s 1000", MasterName),
			fmt.Sprintf("sentinel failover-timeout %s 3000", MasterName),
			fmt.Sprintf("sentinel parallel-syncs %s %d", MasterName, sentinelReplicas))
		if o.Password != "" {
			lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", MasterName, quote(o.Password)),
				"sentinel sentinel-pass "+quote(o.Password))
		}
		return lines
	}
}

// fastSentinel makes a sentinel check more often than every 2 and 10 seconds. On a busy machine it then stops acting only for a
// second, not for half a minute.
func fastSentinel(ctx context.Context, sentinel *Server) error {
	return sentinel.client.Do(ctx, "SENTINEL", "DEBUG", "info-period", 300, "publish-period", 300,
		"ask-period", 200, "tilt-trigger", 10000, "tilt-period", 1000).Err()
}

// WaitReady waits up to 30 seconds until the sentinels agree on a running master, each knows the other sentinels and all
// running servers, and these are in sync.
func (s *Sentinel) WaitReady(ctx context.Context) error {
	return waitUntil(ctx, s.ready)
}

func (s *Sentinel) ready(ctx context.Context) error {
	master, err := s.Master(ctx)
	if err != nil {
		return err
	}
	replicas := len(running(s.servers)) - 1
	for _, sentinel := range running(s.sentinels) {
		state := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", MasterName)
		if err := sentinel.client.Process(ctx, state); err != nil {
			return err
		}
		m := state.Val()
		if known := m["ip"] + ":" + m["port"]; known != master.Addr() || m["flags"] != "master" ||
			m["num-other-sentinels"] != fmt.Sprint(sentinels-1) || m["num-slaves"] < fmt.Sprint(replicas) {
			return fmt.Errorf("the sentinel at %s reports the master as %v", sentinel.Addr(), m)
		}
	}
	return inSync(ctx, running(s.servers), master, replicas)
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.sentinels) }

// Servers returns the servers of the master and its replicas, running or not.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels returns the servers of the sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Master returns the master. It fails if the running sentinels do not agree on one, or if it does not run, as in the first
// seconds after KillMaster.
func (s *Sentinel) Master(ctx context.Context) (*Server, error) {
	var addr string
	for _, sentinel := range running(s.sentinels) {
		cmd := redis.NewStringSliceCmd(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if err := sentinel.client.Process(ctx, cmd); err != nil {
			return nil, err
		}
		found := strings.Join(cmd.Val(), ":")
		if addr != "" && found != addr {
			return nil, fmt.Errorf("sentinels disagree about the master: %s and %s", addr, found)
		}
		addr = found
	}
	return at(s.servers, addr)
}

// KillMaster kills the master and returns it. WaitReady then waits for the end of the failover.
func (s *Sentinel) KillMaster(ctx context.Context) (*Server, error) {
	master, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	master.Kill()
	return master, nil
}

// Close kills all servers and removes their directories.
func (s *Sentinel) Close() error { return closeAll(append(s.Sentinels(), s.servers...)) }
