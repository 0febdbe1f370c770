package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/connect"
)

// explainStore is where to look: the store that replicas share, or those of one.
type explainStore struct {
	peek  func(ctx context.Context, groups, shared []store.Key) ([]storePeek, error)
	close func()
}

// store is where the flags say to look.
func (o *explainOptions) store() (*explainStore, error) {
	if !o.usesRedis() {
		return &explainStore{peek: o.peekReplica, close: func() {}}, nil
	}
	connect.LogTo(logr.Discard()) // what fails is said once, as an error
	client, err := connect.New(*o.Redis)
	if err != nil {
		return nil, err
	}
	redis := store.NewRedis(client, store.RedisOptions{Prefix: o.RedisPrefix})
	return &explainStore{
		peek: func(ctx context.Context, groups, shared []store.Key) ([]storePeek, error) {
			ctx, cancel := context.WithTimeout(ctx, o.Redis.DialTimeout+o.Redis.Timeout)
			defer cancel()
			p, err := redis.Peek(ctx, time.Now(), groups, shared)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.redisFlag(), oneLine(err))
			}
			return []storePeek{{Name: "redis", Peeked: p}}, nil
		},
		close: func() { _ = client.Close() }, // nothing was written
	}, nil
}

func (o *explainOptions) redisFlag() string {
	if o.Redis.URL != "" {
		return "--redis-url"
	}
	return "--redis-addresses"
}

// peekReplica asks the replica at --endpoint.
func (o *explainOptions) peekReplica(ctx context.Context, groups, shared []store.Key) ([]storePeek, error) {
	query := url.Values{}
	for _, key := range groups {
		query.Add("group", key.String())
	}
	for _, key := range shared {
		query.Add("shared", key.String())
	}
	var answer peekAnswer
	if err := o.Endpoint.get(ctx, "/explain", query, &answer); err != nil {
		return nil, err
	}
	return answer.Stores, nil
}
