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
	// life is for how long a replica that has stopped is in sums.
	life = 5 * time.Minute
	// readTimeout bounds reading snapshots.
	readTimeout = 5 * time.Second
	// maxUnpacked bounds a snapshot when it is unpacked, in bytes. It can take half of that: its names have up to three
	// parts, of which each byte may be written as \x00.
	maxUnpacked = 32 << 20
)

// Redis is where replicas share snapshots: one hash, with a field for each replica. Each overwrites its own: writing
// twice does no harm, and no step needs a script.
type Redis struct {
	client redisclient.Caller
	key    string
}

// NewRedis makes one that uses client, with a key that begins with prefix.
func NewRedis(client redisclient.Caller, prefix string) *Redis {
	return &Redis{client: client, key: prefix + "counts"}
}

// Put replaces the earlier snapshot of the same replica.
func (r *Redis) Put(ctx context.Context, s Snapshot) error {
	packed, err := pack(s)
	if err == nil {
		err = r.client.Call(ctx,
			redis.NewIntCmd(ctx, "hset", r.key, s.Replica.Name, packed),
			redis.NewBoolCmd(ctx, "pexpire", r.key, life.Milliseconds()),
		)
	}
	if err != nil {
		return fmt.Errorf("write to Redis what was counted: %w", err)
	}
	return nil
}

// All are the snapshots of the last five minutes. Older ones, and any that cannot be read, are removed: a replica that
// runs after all is there again with its next Put.
func (r *Redis) All(ctx context.Context) (all []Snapshot, err error) {
	read, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	values := redis.NewMapStringStringCmd(read, "hgetall", r.key)
	if err := r.client.Call(read, values); err != nil {
		return nil, fmt.Errorf("read from Redis what was counted: %w", err)
	}
	var errs []error
	remove := []any{"hdel", r.key}
	for name, packed := range values.Val() {
		s, err := unpack(packed)
		if err != nil {
			errs = append(errs, fmt.Errorf("read from Redis what replica %q counted: %w", name, err))
		}
		if err != nil || time.Since(s.Replica.At) > life {
			remove = append(remove, name)
			continue
		}
		all = append(all, s)
	}
	if len(remove) > 2 {
		errs = append(errs, r.client.Call(ctx, redis.NewIntCmd(ctx, remove...)))
	}
	return all, errors.Join(errs...)
}

// pack is a snapshot as Redis keeps it: JSON, compressed to a fifth, as it is written every two seconds and Redis may
// log each write.
func pack(s Snapshot) ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // which is a level
	if err := errors.Join(json.NewEncoder(w).Encode(s), w.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return b.Bytes(), nil
}

// unpack reads what pack wrote.
func unpack(packed string) (s Snapshot, err error) {
	r, err := gzip.NewReader(bytes.NewReader([]byte(packed)))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(&s)
	}
	if err != nil {
		return s, fmt.Errorf("unpack: %w", err)
	}
	return s, nil
}
