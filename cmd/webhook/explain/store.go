package explain

import (
	"context"
	"fmt"
	"net/url"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/cmd/webhook/text"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/rules"
)

// reading is where to look: the store that replicas share, or that of one.
type reading struct {
	peek  func(ctx context.Context, groups, levels []store.Key) (peeked, error)
	close func()
}

// peeked is what a store knows, and how metrics call it.
type peeked struct {
	rules.State

	name string
}

// store is where the flags say to look.
func (o *options) store() (*reading, error) {
	if !o.Replicas.UsesRedis() {
		return &reading{peek: o.peekReplica, close: func() {}}, nil
	}
	redisclient.LogTo(logr.Discard()) // what fails is said once, as an error
	client, err := redisclient.New(*o.Replicas.Redis)
	if err != nil {
		return nil, err
	}
	shared := redis.New(client, redis.Options{Prefix: o.Replicas.RedisPrefix})
	return &reading{
		peek: func(ctx context.Context, groups, levels []store.Key) (peeked, error) {
			ctx, cancel := context.WithTimeout(ctx, o.Replicas.Redis.DialTimeout+o.Replicas.Redis.Timeout)
			defer cancel()
			state, err := shared.Peek(ctx, groups, levels)
			if err != nil {
				return peeked{}, fmt.Errorf("%s: %w", o.redisFlag(), text.OneLine(err))
			}
			return peeked{state, "redis"}, nil
		},
		close: func() { _ = client.Close() }, // nothing was written
	}, nil
}

func (o *options) redisFlag() string {
	if o.Replicas.Redis.URL != "" {
		return "--redis-url"
	}
	return "--redis-addresses"
}

// peekReplica asks the replica at --endpoint.
func (o *options) peekReplica(ctx context.Context, groups, levels []store.Key) (peeked, error) {
	query := url.Values{}
	for _, key := range groups {
		query.Add("group", key.String())
	}
	for _, key := range levels {
		query.Add("level", key.String())
	}
	var answer peekAnswer
	if err := o.Replicas.Endpoint.Get(ctx, "/explain", query, &answer); err != nil {
		return peeked{}, err
	}
	state, err := answer.state()
	if err != nil {
		return peeked{}, fmt.Errorf("--endpoint: the answer to /explain is not what a replica says: %w", err)
	}
	return peeked{state, answer.Store}, nil
}
