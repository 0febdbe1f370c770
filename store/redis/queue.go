package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// indexed bounds how much of one shard's index a claim looks at, so that it stays short however much is
// due. The next claim goes on where it ended, so no namespace hides another.
const indexed = 1024

// member is how the index names a register, and the namespace in which it is written.
func member(group store.Key, namespace string) string { return string(group[:]) + namespace }

// Claim implements store.Queue. It makes two trips to each server concerned. If one does not answer, what
// it holds is missing and the error says so.
func (s *Store) Claim(
	ctx context.Context, _ time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	if n <= 0 {
		return nil, nil
	}
	err := s.clocksKnown(ctx)
	limits := make([]time.Time, shards)
	commands, all := make([]*redis.ZSliceCmd, shards), make([]redis.Cmder, shards)
	for i := range commands {
		to := "+inf"
		limits[i] = time.UnixMicro(math.MaxInt64 / 2)
		if ahead < never {
			limits[i] = s.clocks[i].now(s.opts.Now()).Add(ahead + time.Microsecond - 1).Truncate(time.Microsecond)
			to = strconv.FormatInt(limits[i].UnixMicro(), 10)
		}
		commands[i] = redis.NewZSliceCmd(ctx, "zrangebyscore", s.dues[i], "-inf", to, "withscores", "limit", s.looked[i].Load(), indexed)
		all[i] = commands[i]
	}
	err = errors.Join(err, s.call(ctx, all))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("look at what is due: %w", err) // commands may still be running
	}
	var due []rules.DueGroup
	for i, c := range commands {
		if len(c.Val()) < indexed {
			s.looked[i].Store(0)
		} else {
			s.looked[i].Add(indexed)
		}
		for _, z := range c.Val() {
			name, _ := z.Member.(string)
			if len(name) < len(store.Key{}) {
				continue
			}
			due = append(due, rules.DueGroup{Group: store.Key([]byte(name[:16])), Namespace: name[16:], Due: int64(z.Score)})
		}
	}
	writes, readErr := s.read(ctx, s.turns.Pick(due, n, claimed), limits)
	if err = errors.Join(err, readErr); err != nil {
		err = fmt.Errorf("read what is due: %w", err)
	}
	return writes, err
}

// never is so far ahead that everything falls due: 142 years.
const never = 1 << 52 * time.Microsecond

// read reads what is due of registers.
func (s *Store) read(ctx context.Context, due []rules.DueGroup, limits []time.Time) ([]store.PendingWrite, error) {
	if len(due) == 0 {
		return nil, nil
	}
	keys := make([]store.Key, len(due))
	for i, d := range due {
		keys[i] = d.Group
	}
	values, err := s.values(ctx, keys)
	var writes []store.PendingWrite
	for i, d := range due {
		if values[i] == nil {
			continue
		}
		r, decodeErr := decode(*values[i])
		if decodeErr != nil {
			err = errors.Join(err, decodeErr)
			continue
		}
		found := r.group.Claim(d.Group, limits[shard(d.Group)])
		if len(found) == 0 && r.group.Due().IsZero() {
			// The register has expired, or Redis has lost it and kept the index.
			err = errors.Join(err, s.call(ctx, []redis.Cmder{redis.NewIntCmd(ctx, "zrem", s.dues[shard(d.Group)], member(d.Group, d.Namespace))}))
		}
		writes = append(writes, found...)
	}
	return writes, err
}

// values returns the values of registers: empty for one that does not exist, nil for one that could not be
// read.
func (s *Store) values(ctx context.Context, groups []store.Key) ([]*string, error) {
	commands, all := make([]*redis.StringCmd, len(groups)), make([]redis.Cmder, len(groups))
	for i, group := range groups {
		commands[i] = redis.NewStringCmd(ctx, "get", s.groupKey(group))
		all[i] = commands[i]
	}
	err := s.call(ctx, all)
	values := make([]*string, len(groups))
	if ctx.Err() != nil {
		return values, err // commands may still be running
	}
	for i, c := range commands {
		if c.Err() == nil || errors.Is(c.Err(), redis.Nil) {
			value := c.Val()
			values[i] = &value
		}
	}
	return values, err
}

// call runs commands. That a key does not exist is no error.
func (s *Store) call(ctx context.Context, all []redis.Cmder) error {
	err := s.client.Call(ctx, all...)
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	err = nil
	for _, c := range all {
		if e := c.Err(); e != nil && !errors.Is(e, redis.Nil) {
			err = e
		}
	}
	return err
}

// clocksKnown asks the shards whose clock is not known for their time.
func (s *Store) clocksKnown(ctx context.Context) error {
	here := s.opts.Now()
	failed := make(chan error, shards)
	asked := 0
	for i := range s.clocks {
		if s.clocks[i].known(here) {
			continue
		}
		asked++
		go func() {
			now, err := s.shardTime(ctx, i)
			if err == nil {
				s.clocks[i].set(now, s.opts.Now())
			}
			failed <- err
		}()
	}
	var err error
	for range asked {
		err = cmp.Or(err, <-failed)
	}
	return err
}

// shardTime asks a shard for its time, by a step that never fits.
func (s *Store) shardTime(ctx context.Context, shard int) (int64, error) {
	answer, err := script.Run(ctx, s.client, []string{s.names[shard] + "clock", s.dues[shard]},
		"none", "", "", "", 0, 0, 1, "", "-", 0)
	if err != nil {
		return 0, err
	}
	return integer(answer, 0)
}

// Reach reports whether Redis answers.
func (s *Store) Reach(ctx context.Context) error {
	_, err := s.shardTime(ctx, 0)
	return err
}

// Complete implements store.Queue.
func (s *Store) Complete(ctx context.Context, _ time.Time, p store.PendingWrite, o store.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	err := s.change(ctx, p.Namespace, p.Ref.Group, func(g *rules.Group, now time.Time, fresh store.Key) { g.Complete(now, fresh, &p, o) })
	if errors.Is(err, store.ErrUnconfirmed) {
		return nil // it stays in the line, and is carried out once
	}
	return err
}

// completeTimeout bounds a Complete: unlike a decision it may wait.
const completeTimeout = 2 * time.Second

// Pending implements store.Queue. The shards are not counted at one moment.
func (s *Store) Pending(ctx context.Context) (int64, error) {
	counts, all := make([]*redis.IntCmd, shards), make([]redis.Cmder, shards)
	for i := range counts {
		counts[i] = redis.NewIntCmd(ctx, "zcard", s.dues[i])
		all[i] = counts[i]
	}
	if err := s.call(ctx, all); err != nil {
		return 0, fmt.Errorf("count what is pending: %w", err)
	}
	var n int64
	for _, c := range counts {
		n += c.Val()
	}
	return n, nil
}

// Peek copies what Redis holds of groups and of the levels of quotas. What does not exist is missing.
func (s *Store) Peek(ctx context.Context, groups, levels []store.Key) (rules.State, error) {
	state := rules.State{At: s.opts.Now(), Groups: map[store.Key]*rules.Group{}, Levels: map[store.Key]rules.Level{}}
	values, err := s.values(ctx, groups)
	if err != nil {
		return state, fmt.Errorf("look into redis: %w", err)
	}
	for i, value := range values {
		if *value == "" {
			continue
		}
		r, err := decode(*value)
		if err != nil {
			return state, err
		}
		state.Groups[groups[i]] = r.group
		state.At = s.now(groups[i])
	}
	commands, all := make([]*redis.StringCmd, len(levels)), make([]redis.Cmder, len(levels))
	for i, level := range levels {
		commands[i] = redis.NewStringCmd(ctx, "get", s.quotaKey(level))
		all[i] = commands[i]
	}
	if err := s.call(ctx, all); err != nil {
		return state, fmt.Errorf("look into redis: %w", err)
	}
	for i, c := range commands {
		var v rules.Level
		if _, err := fmt.Sscanf(c.Val(), "%d %d", &v.Used, &v.At); err == nil {
			state.Levels[levels[i]] = v
		}
	}
	return state, nil
}
