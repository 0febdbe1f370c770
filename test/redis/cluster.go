package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster. A replica takes over from a lost master within 2 to 4 seconds.
type Cluster struct {
	servers []*Server
}

// NewCluster starts a cluster of masters, each with the given number of replicas, and waits up to 30 seconds until it is
// ready, see WaitReady. A failover needs at least 3 masters. The servers run until Close or the end of this process.
func NewCluster(ctx context.Context, o Options, masters, replicas int) (*Cluster, error) {
	c := &Cluster{}
	if err := c.start(ctx, o, masters, replicas); err != nil {
		return nil, errors.Join(fmt.Errorf("start a Redis Cluster: %w", err), c.Close())
	}
	return c, nil
}

// WaitReady waits up to 30 seconds until every running server reports a healthy cluster, the owner of every slot runs, and
// every running replica is in sync.
func (c *Cluster) WaitReady(ctx context.Context) error { return waitUntil(ctx, c.ready) }

func (c *Cluster) ready(ctx context.Context) error {
	for _, s := range running(c.servers) {
		info, err := s.client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
			return fmt.Errorf("the server at %s reports\n%s", s.Addr(), info)
		}
		slots, err := slotsOf(ctx, s)
		if err != nil {
			return err
		}
		seen := 0
		for _, share := range slots {
			seen += len(share.Nodes)
			if err := c.shareInSync(ctx, share.Nodes[0].Addr, len(share.Nodes)-1); err != nil {
				return err
			}
		}
		if up := len(running(c.servers)); seen != up {
			return fmt.Errorf("the server at %s sees %d of %d servers", s.Addr(), seen, up)
		}
	}
	return nil
}

func slotsOf(ctx context.Context, s *Server) ([]redis.ClusterSlot, error) {
	return s.client.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS does not leave out lost servers
}

// shareInSync returns an error unless the replicas of a master are in sync.
func (c *Cluster) shareInSync(ctx context.Context, addr string, replicas int) error {
	master, err := at(c.servers, addr)
	if err != nil {
		return err
	}
	nodes := []*Server{master}
	for _, s := range running(c.servers) {
		info, err := s.client.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, fmt.Sprintf("master_port:%d\r", master.port)) {
			nodes = append(nodes, s)
		}
	}
	return inSync(ctx, nodes, master, replicas)
}

// Addrs returns the addresses of all servers, running or not.
func (c *Cluster) Addrs() []string { return addrs(c.servers) }

// Servers returns all servers, running or not.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// MasterOf returns the server that owns the slot of a key. It fails if the servers do not agree, or if that server does not
// run, as in the first seconds after KillMasterOf.
func (c *Cluster) MasterOf(ctx context.Context, key string) (*Server, error) {
	var addr string
	for _, s := range running(c.servers) {
		slot, err := s.client.ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		shares, err := slotsOf(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, share := range shares {
			if int(slot) < share.Start || int(slot) > share.End {
				continue
			}
			found := share.Nodes[0].Addr
			if addr != "" && found != addr {
				return nil, fmt.Errorf("servers disagree about the master of %q: %s and %s", key, addr, found)
			}
			addr = found
		}
	}
	return at(c.servers, addr)
}

// KillMasterOf kills the server that owns the slot of a key, and returns it. WaitReady then waits for the end of the failover.
func (c *Cluster) KillMasterOf(ctx context.Context, key string) (*Server, error) {
	master, err := c.MasterOf(ctx, key)
	if err != nil {
		return nil, err
	}
	master.Kill()
	return master, nil
}

// Close kills all servers and removes their directories.
func (c *Cluster) Close() error { return closeAll(c.servers) }

// ReplicaOf returns a replica of a master.
func (c *Cluster) ReplicaOf(ctx context.Context, master *Server) (*Server, error) {
	_, port, _ := strings.Cut(master.Addr(), ":")
	for _, s := range c.Servers() {
		info, err := s.Client().Info(ctx, "replication").Result()
		if err != nil {
			return nil, err
		}
		if strings.Contains(info, "master_port:"+port+"\r") {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s has no replica", master.Addr())
}
