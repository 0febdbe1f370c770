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

// watchEvery is how often Watch looks.
const watchEvery = time.Minute

// Watch logs to the logger of ctx if Redis cannot be reached within a time at first, and when servers may lose what
// is pending. It calls evicting every minute with the number of those, until ctx ends.
func Watch(ctx context.Context, c redis.UniversalClient, within time.Duration, evicting func(servers float64)) {
	log := logr.FromContextOrDiscard(ctx)
	first, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := c.Ping(first).Err(); err != nil {
		log.Error(err, "Redis cannot be reached, each policy's onStoreFailure decides until it can")
	}
	last := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		servers, err := Evicting(ctx, c)
		now := strings.Join(servers, ", ")
		switch {
		case redis.HasErrorPrefix(err, "NOPERM"):
			if now = "unknown"; now != last {
				log.Info("Cannot see whether Redis evicts keys: its user needs +info", "error", err.Error())
			}
		case err != nil:
			return
		default:
			evicting(float64(len(servers)))
			if now != "" && now != last {
				log.Error(nil, "Redis may lose what is pending: set maxmemory-policy to noeviction", "servers", servers)
			}
		}
		last = now
	}, watchEvery)
}

// Evicting names the servers that evict keys when their memory is full, and the maxmemory-policy of
// each: what is pending there may be lost. It needs the right to INFO.
func Evicting(ctx context.Context, c redis.UniversalClient) ([]string, error) {
	var (
		mu    sync.Mutex
		found []string
	)
	look := func(ctx context.Context, server *redis.Client) error {
		info := server.InfoMap(ctx, "memory")
		if err := info.Err(); err != nil {
			return fmt.Errorf("ask redis for its maxmemory-policy: %w", err)
		}
		if policy := info.Item("Memory", "maxmemory_policy"); policy != "" && policy != "noeviction" {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, server.Options().Addr+": "+policy)
		}
		return nil
	}
	var err error
	switch c := c.(type) {
	case *Client:
		return Evicting(ctx, c.UniversalClient)
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, look)
	case *redis.Client:
		err = look(ctx, c)
	}
	slices.Sort(found)
	return found, err
}

// LogTo sends what the Redis library logs to log, at V(1): it is about single connections, and calls return the
// errors that matter. The library has one logger for the process, so it is called once and before New.
func LogTo(log logr.Logger) { redis.SetLogger(libraryLogger{log}) }

type libraryLogger struct{ log logr.Logger }

// Printf is called by the library.
func (l libraryLogger) Printf(_ context.Context, format string, args ...any) {
	l.log.V(1).Info("Redis client reports", "report", fmt.Sprintf(format, args...))
}
