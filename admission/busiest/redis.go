package busiest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
)

// life is how long Redis keeps a snapshot: a replica that stops is in sums for
// so long.
const life = 5 * time.Minute

// sumsLife is how long Redis keeps sums that nobody saves again.
const sumsLife = 24 * time.Hour

// maxReplicas bounds the snapshots that are read.
const maxReplicas = 1000

// readTimeout bounds reading what all replicas told.
const readTimeout = 5 * time.Second

// Client calls Redis. A *redisclient.Client is one.
type Client interface {
	// Call runs commands once each and at the same time, in one round trip to
	// each server concerned. It returns the first error. When that is the
	// context's, the commands may still be running.
	Call(ctx context.Context, cmds ...redis.Cmder) error
}

// Redis is where replicas tell each other. Each has one value under one key, which
// it overwrites: writing twice does no harm, and no step needs a script. An index
// names them; what it names and is gone is not counted.
type Redis struct {
	client Client
	prefix string
}

// NewRedis makes one of the Redis of client, of keys that begin with prefix.
func NewRedis(client Client, prefix string) *Redis {
	return &Redis{client: client, prefix: prefix + "busiest"}
}

func (r *Redis) key(replica string) string { return r.prefix + ":" + replica }

// Put replaces what the replica of s told before, for five minutes.
func (r *Redis) Put(ctx context.Context, s Snapshot) error {
	packed, err := pack(s)
	if err != nil {
		return err
	}
	now := s.Replica.At.UnixMilli()
	ends := redis.Z{Score: float64(now + life.Milliseconds()), Member: s.Replica.Name}
	ended := redis.NewStringSliceCmd(ctx, "zrangebyscore", r.prefix, "-inf", now, "limit", 0, maxReplicas)
	err = r.client.Call(ctx,
		redis.NewStatusCmd(ctx, "set", r.key(s.Replica.Name), packed, "px", life.Milliseconds()),
		redis.NewIntCmd(ctx, "zadd", r.prefix, ends.Score, ends.Member),
		redis.NewBoolCmd(ctx, "pexpire", r.prefix, life.Milliseconds()),
		ended,
	)
	if err != nil {
		return fmt.Errorf("tell in Redis what is busiest: %w", err)
	}
	return r.forget(ctx, ended.Val())
}

// forget takes replicas out of the index. One that lives after all, as clocks
// differ, comes back with its next Put.
func (r *Redis) forget(ctx context.Context, ended []string) error {
	if len(ended) == 0 {
		return nil
	}
	args := []any{"zrem", r.prefix}
	for _, name := range ended {
		args = append(args, name)
	}
	if err := r.client.Call(ctx, redis.NewIntCmd(ctx, args...)); err != nil {
		return fmt.Errorf("forget in Redis who has stopped: %w", err)
	}
	return nil
}

// Save keeps the sums that one replica makes of all snapshots, for the next one to do so, for a day.
// They are anything that is JSON.
func (r *Redis) Save(ctx context.Context, sums any) error {
	packed, err := pack(sums)
	if err != nil {
		return err
	}
	if err := r.client.Call(ctx, redis.NewStatusCmd(ctx, "set", r.prefix+":sums", packed, "px", sumsLife.Milliseconds())); err != nil {
		return fmt.Errorf("save in Redis what was counted: %w", err)
	}
	return nil
}

// Load reads into sums what was saved last. They stay as they are where nothing was.
func (r *Redis) Load(ctx context.Context, sums any) error {
	value := redis.NewStringCmd(ctx, "get", r.prefix+":sums")
	err := r.client.Call(ctx, value)
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return fmt.Errorf("load from Redis what was counted: %w", err)
	}
	packed, err := value.Bytes()
	if err != nil {
		return fmt.Errorf("load from Redis what was counted: %w", err)
	}
	return unpack(packed, sums)
}

// All are the snapshots of all replicas that told one in the last five minutes. It takes five seconds at
// most.
func (r *Redis) All(ctx context.Context) ([]Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	names := redis.NewStringSliceCmd(ctx, "zrangebyscore", r.prefix, "-inf", "+inf", "limit", 0, maxReplicas)
	if err := r.client.Call(ctx, names); err != nil {
		return nil, fmt.Errorf("read from Redis who counts: %w", err)
	}
	var gets []redis.Cmder
	var values []*redis.StringCmd
	for _, name := range names.Val() {
		values = append(values, redis.NewStringCmd(ctx, "get", r.key(name)))
		gets = append(gets, values[len(values)-1])
	}
	if len(gets) == 0 {
		return nil, nil
	}
	if err := r.client.Call(ctx, gets...); err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("read from Redis what is busiest: %w", err)
	}
	all := make([]Snapshot, 0, len(gets))
	for i, value := range values {
		packed, err := value.Bytes()
		if errors.Is(err, redis.Nil) {
			continue
		}
		var s Snapshot
		if err == nil {
			err = unpack(packed, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("read from Redis what replica %q counted: %w", names.Val()[i], err)
		}
		all = append(all, s)
	}
	return all, nil
}

// maxUnpacked is how long a value may be when it is unpacked, in bytes. The 4 rankings of a
// snapshot can take 8 MB: 256 rows, with names of three parts of which each byte is written as \x00.
const maxUnpacked = 64 << 20

// pack is v as Redis keeps it: JSON, compressed, which takes a fifth of it. It is
// written every two seconds, and Redis may keep a log of that.
func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	return b.Bytes(), nil
}

// unpack reads into v what pack wrote.
func unpack(packed []byte, v any) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpack what was counted: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(v); err != nil {
		return fmt.Errorf("unpack what was counted: %w", err)
	}
	return nil
}

const (
	putEvery  = 2 * time.Second
	putWithin = 5 * time.Second
)

// Run tells r every two seconds what c has counted, until ctx is done, and then
// once more.
func (c *Counter) Run(ctx context.Context, r *Redis) {
	log := logr.FromContextOrDiscard(ctx)
	tick := time.NewTicker(putEvery)
	defer tick.Stop()
	failing := false
	put := func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, putWithin)
		defer cancel()
		err := r.Put(within, c.Snapshot(time.Now()))
		switch {
		case ctx.Err() != nil: // it goes on with the last time
			return
		case err != nil && !failing:
			log.Error(err, "What is busiest on this replica is not known to others")
		case err == nil && failing:
			log.Info("What is busiest on this replica is known to others again")
		}
		failing = err != nil
	}
	for {
		select {
		case <-tick.C:
			put(ctx)
		case <-ctx.Done():
			put(context.WithoutCancel(ctx))
			return
		}
	}
}
