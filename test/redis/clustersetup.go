package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// clusterSlots is how many hash slots a cluster has.
const clusterSlots = 16384

func (c *Cluster) start(ctx context.Context, o Options, masters, replicas int) error {
	o.Lines = append([]string{
		"cluster-enabled yes", "cluster-node-timeout 1500",
		// Without this, a server learns its own address only from other servers.
		"cluster-announce-ip 127.0.0.1",
		// A replica takes over even if it lacks data, and never moves to another master.
		"cluster-replica-validity-factor 0", "cluster-allow-replica-migration no",
	}, o.Lines...)
	for range masters * (1 + replicas) {
		s, err := newServer(ctx, o, data)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, s)
		o.certs = s.Certs
	}
	if err := c.join(ctx, masters); err != nil {
		return err
	}
	for i, s := range c.servers[masters:] {
		id, err := c.servers[i%masters].client.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		if err := s.client.ClusterReplicate(ctx, id).Err(); err != nil {
			return err
		}
	}
	return c.WaitReady(ctx)
}

// join gives equal shares of the slots to the first servers, and waits until every server knows every other.
func (c *Cluster) join(ctx context.Context, masters int) error {
	first := c.servers[0].port
	for i, s := range c.servers {
		if i < masters {
			from, to := i*clusterSlots/masters, (i+1)*clusterSlots/masters-1
			if err := s.client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
				return err
			}
		}
		// Servers with the same epoch would first have to resolve the conflict.
		if err := s.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if err := s.client.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(first)).Err(); err != nil {
			return err
		}
	}
	return waitUntil(ctx, c.checkNodes)
}

// checkNodes returns an error that names a server that does not know every other yet.
func (c *Cluster) checkNodes(ctx context.Context) error {
	for _, s := range c.servers {
		nodes, err := s.client.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Count(nodes, " connected") != len(c.servers) || strings.Contains(nodes, "handshake") {
			return fmt.Errorf("the server at %s knows only\n%s", s.Addr(), nodes)
		}
	}
	return nil
}
