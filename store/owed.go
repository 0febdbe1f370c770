package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Owed is how many stored Events and notices something is owed to, due or not,
// those of Events that are gone included.
func (m *Memory) Owed(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.due)), nil
}

// Owed is how many stored Events and notices something is owed to, due or not,
// those of Events that are gone included. It takes one round trip, and is not of
// one moment: it looks into one hash slot after the other.
func (r *Redis) Owed(ctx context.Context) (int64, error) {
	counts := make([]*redis.IntCmd, shards)
	all := make([]redis.Cmder, shards)
	for i := range counts {
		counts[i] = redis.NewIntCmd(ctx, "zcard", r.tag(byte(i))+"due")
		all[i] = counts[i]
	}
	if err := r.client.Call(ctx, all...); err != nil {
		return 0, fmt.Errorf("count what is owed: %w", err)
	}
	var owed int64
	for _, c := range counts {
		owed += c.Val()
	}
	return owed, nil
}
