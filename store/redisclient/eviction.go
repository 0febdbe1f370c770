package redisclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/util/wait"
)

// evictionCheckInterval is how often WatchEviction checks, and evictionCheckTimeout bounds each check.
const evictionCheckInterval, evictionCheckTimeout = time.Minute, 10 * time.Second

// WatchEviction checks every minute, until ctx ends, whether servers may evict pending writes, and calls found with the number of such
// servers. It logs to the logger of ctx if there are any, and if it cannot check: Redis is unavailable, or its user lacks the right.
func WatchEviction(ctx context.Context, c *Client, found func(servers float64)) {
	log := logr.FromContextOrDiscard(ctx)
	const unknown = "unknown"
	last := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, evictionCheckTimeout)
		defer cancel()
		servers, err := evictingServers(within, c)
		now := strings.Join(servers, ", ")
		if err != nil {
			now = unknown
		} else {
			found(float64(len(servers)))
		}
		switch {
		case now == last, ctx.Err() != nil:
		case now == unknown:
			log.Error(err, "Cannot check whether Redis evicts keys: it is unavailable, or its user lacks +info")
		case now != "":
			log.Error(nil, "Redis may evict pending writes: set maxmemory-policy to noeviction", "servers", servers)
		}
		last = now
	}, evictionCheckInterval)
}

// evictingServers returns the servers that evict keys when their memory is full, with the maxmemory-policy of each.
func evictingServers(ctx context.Context, c *Client) (found []string, err error) {
	var mu sync.Mutex
	check := func(ctx context.Context, server *redis.Client) error {
		info := server.InfoMap(ctx, "memory")
		if err := info.Err(); err != nil {
			return fmt.Errorf("read maxmemory-policy of Redis: %w", err)
		}
		if policy := info.Item("Memory", "maxmemory_policy"); policy != "" && policy != "noeviction" {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, server.Options().Addr+": "+policy)
		}
		return nil
	}
	switch c := c.UniversalClient.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, check)
	case *redis.Client:
		err = check(ctx, c)
	}
	slices.Sort(found)
	return found, err
}
