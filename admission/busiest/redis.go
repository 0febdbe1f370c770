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

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
)

const (
	// life is how long Redis keeps a snapshot, and so how long a replica that has stopped is in sums.
	life = 5 * time.Minute
	// sumsLife is how long Redis keeps sums after they were saved.
	sumsLife = 24 * time.Hour
	// maxReplicas bounds the snapshots that are read.
	maxReplicas = 1000
	// readTimeout bounds reading them.
	readTimeout = 5 * time.Second
	// maxUnpacked bounds a value when it is unpacked, in bytes. The rankings of a snapshot can take 8 MB: 256
	// rows, with names of three parts of which each byte is written as \x00.
	maxUnpacked = 64 << 20
)

// Redis is where replicas share snapshots. Each replica overwrites one value under one key: writing twice does no
// harm, and no step needs a script. An index names them; one whose value is missing is not counted. A nil *Redis
// keeps nothing.
type Redis struct {
	client redisclient.Caller
	prefix string
}

// NewRedis makes one that uses client, with keys that begin with prefix.
func NewRedis(client redisclient.Caller, prefix string) *Redis {
	return &Redis{client: client, prefix: prefix + "busiest"}
}

func (r *Redis) key(replica string) string { return r.prefix + ":" + replica }

// Put replaces the earlier snapshot of the same replica, for five minutes.
func (r *Redis) Put(ctx context.Context, s Snapshot) error {
	packed, err := pack(s)
	if err != nil {
		return err
	}
	now := s.Replica.At.UnixMilli()
	ended := redis.NewStringSliceCmd(ctx, "zrangebyscore", r.prefix, "-inf", now, "limit", 0, maxReplicas)
	err = r.client.Call(ctx,
		redis.NewStatusCmd(ctx, "set", r.key(s.Replica.Name), packed, "px", life.Milliseconds()),
		redis.NewIntCmd(ctx, "zadd", r.prefix, float64(now+life.Milliseconds()), s.Replica.Name),
		redis.NewBoolCmd(ctx, "pexpire", r.prefix, life.Milliseconds()),
		ended,
	)
	if err != nil {
		return fmt.Errorf("write to Redis what is busiest: %w", err)
	}
	if len(ended.Val()) == 0 {
		return nil
	}
	// A replica that runs after all, as clocks differ, comes back into the index with its next Put.
	args := []any{"zrem", r.prefix}
	for _, name := range ended.Val() {
		args = append(args, name)
	}
	if err := r.client.Call(ctx, redis.NewIntCmd(ctx, args...)); err != nil {
		return fmt.Errorf("remove stopped replicas from Redis: %w", err)
	}
	return nil
}

// Save keeps the sums of one replica for its successor, for a day. They are anything that is JSON.
func (r *Redis) Save(ctx context.Context, sums any) error {
	if r == nil {
		return nil
	}
	packed, err := pack(sums)
	if err == nil {
		err = r.client.Call(ctx, redis.NewStatusCmd(ctx, "set", r.key("sums"), packed, "px", sumsLife.Milliseconds()))
	}
	if err != nil {
		return fmt.Errorf("save in Redis what was counted: %w", err)
	}
	return nil
}

// Load reads into sums what was saved last. It leaves them as they are if nothing was.
func (r *Redis) Load(ctx context.Context, sums any) error {
	if r == nil {
		return nil
	}
	value := redis.NewStringCmd(ctx, "get", r.key("sums"))
	err := r.client.Call(ctx, value)
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err == nil {
		err = unpack(value, sums)
	}
	if err != nil {
		return fmt.Errorf("load from Redis what was counted: %w", err)
	}
	return nil
}

// All are the snapshots of the last five minutes, one for each replica. It takes at most readTimeout.
func (r *Redis) All(ctx context.Context) ([]Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	names := redis.NewStringSliceCmd(ctx, "zrangebyscore", r.prefix, "-inf", "+inf", "limit", 0, maxReplicas)
	if err := r.client.Call(ctx, names); err != nil {
		return nil, fmt.Errorf("read from Redis which replicas count: %w", err)
	}
	var gets []redis.Cmder
	var values []*redis.StringCmd
	for _, name := range names.Val() {
		value := redis.NewStringCmd(ctx, "get", r.key(name))
		values, gets = append(values, value), append(gets, value)
	}
	if len(gets) == 0 {
		return nil, nil
	}
	// Other errors are those of single values.
	if err := r.client.Call(ctx, gets...); err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("read from Redis what is busiest: %w", err)
	}
	all := make([]Snapshot, 0, len(values))
	for i, value := range values {
		var s Snapshot
		err := unpack(value, &s)
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read from Redis what replica %q counted: %w", names.Val()[i], err)
		}
		all = append(all, s)
	}
	return all, nil
}

// pack is v as Redis keeps it: JSON, compressed to a fifth, as it is written every two seconds and Redis may log
// each write.
func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // which is a level
	if err := errors.Join(json.NewEncoder(w).Encode(v), w.Close()); err != nil {
		return nil, fmt.Errorf("pack what was counted: %w", err)
	}
	return b.Bytes(), nil
}

// unpack reads into v what pack wrote. It returns redis.Nil if there is no value.
func unpack(value *redis.StringCmd, v any) error {
	packed, err := value.Bytes()
	if err != nil {
		return err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(v)
	}
	if err != nil {
		return fmt.Errorf("unpack what was counted: %w", err)
	}
	return nil
}
