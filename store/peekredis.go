package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Peek tells what Redis holds of groups and shared buckets, in one round trip, and
// changes nothing. Each value is told as it is at one moment, At being the latest
// of these.
func (r *Redis) Peek(ctx context.Context, now time.Time, groups, shared []Key) (Peeked, error) {
	look := newScript("look")
	var all trip
	for _, key := range groups {
		all.add(look, r.keys(key)[:1], r.now(now))
	}
	for _, key := range shared {
		all.add(look, []string{r.quotaKey(key)}, r.now(now))
	}
	if err := all.send(ctx, r.client); err != nil && !errors.Is(err, redis.Nil) {
		return Peeked{}, fmt.Errorf("peek: %w", err)
	}
	var p Peeked
	for i, key := range groups {
		at, value, err := readLook(all.calls[i])
		if err != nil {
			return Peeked{}, err
		}
		p.At = latest(p.At, at)
		g, ok, err := unpackGroup(key, at, value)
		if err != nil {
			return Peeked{}, fmt.Errorf("peek: group %s: %w", key, err)
		}
		if ok {
			p.Groups = append(p.Groups, g)
		}
	}
	for i, key := range shared {
		at, value, err := readLook(all.calls[len(groups)+i])
		if err != nil {
			return Peeked{}, err
		}
		p.At = latest(p.At, at)
		if value == "" {
			continue // it is full
		}
		in := unpacker{rest: []byte(value)}
		in.list()
		full := in.time()
		if in.err != nil {
			return Peeked{}, fmt.Errorf("peek: bucket %s: %w", key, in.err)
		}
		if full.After(at) {
			p.Shared = append(p.Shared, PeekedBucket{Key: key, Full: full})
		}
	}
	return p, nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// readLook reads the answer of look.lua: when it was, and the value or none.
func readLook(c *call) (at time.Time, value string, err error) {
	list, err := c.Slice()
	if err != nil {
		return time.Time{}, "", fmt.Errorf("peek: %w", err)
	}
	if len(list) > 1 {
		value, _ = list[1].(string)
	}
	if len(list) > 0 {
		if micros, ok := list[0].(int64); ok {
			return time.UnixMicro(micros).UTC(), value, nil
		}
	}
	return time.Time{}, "", fmt.Errorf("peek: answer %v has no time", list)
}
