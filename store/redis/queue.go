package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

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
	for i := range limits {
		limits[i] = rules.By(s.clocks[i].now(s.opts.Now()), ahead)
	}
	commands, callErr := ask(ctx, s, shards, func(i int) *redis.ZSliceCmd {
		return redis.NewZSliceCmd(ctx, "zrangebyscore", s.dues[i], "-inf", limits[i].UnixMicro(), "withscores", "limit", s.looked[i].Load(), indexed)
	})
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
	if err = errors.Join(err, callErr, readErr); err != nil {
		err = fmt.Errorf("read what is due: %w", err)
	}
	return writes, err
}

// read reads what is due of registers.
func (s *Store) read(ctx context.Context, due []rules.DueGroup, limits []time.Time) ([]store.PendingWrite, error) {
	commands, err := s.get(ctx, len(due), func(i int) string { return s.groupKey(due[i].Group) })
	var writes []store.PendingWrite
	for i, c := range commands {
		if c.Err() != nil && !errors.Is(c.Err(), redis.Nil) {
			continue // err says so
		}
		d := due[i]
		r, decodeErr := decode(c.Val())
		if decodeErr != nil {
			err = errors.Join(err, decodeErr)
			continue
		}
		found := r.group.Claim(d.Group, limits[shard(d.Group)])
		if len(found) == 0 && r.group.Due().IsZero() {
			// The register has expired, or Redis has lost it and kept the index.
			_, lost := ask(ctx, s, 1, func(int) *redis.IntCmd {
				return redis.NewIntCmd(ctx, "zrem", s.dues[shard(d.Group)], member(d.Group, d.Namespace))
			})
			err = errors.Join(err, lost)
		}
		writes = append(writes, found...)
	}
	return writes, err
}

// get reads n values: empty for a key that does not exist.
func (s *Store) get(ctx context.Context, n int, key func(i int) string) ([]*redis.StringCmd, error) {
	return ask(ctx, s, n, func(i int) *redis.StringCmd { return redis.NewStringCmd(ctx, "get", key(i)) })
}

// ask runs n commands and returns them; none if time was up, as they may still be running. That a key does not exist
// is no error.
func ask[C redis.Cmder](ctx context.Context, s *Store, n int, command func(i int) C) ([]C, error) {
	if n == 0 {
		return nil, nil
	}
	commands, all := make([]C, n), make([]redis.Cmder, n)
	for i := range n {
		commands[i] = command(i)
		all[i] = commands[i]
	}
	err := s.client.Call(ctx, all...)
	if ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	err = nil
	for _, c := range all {
		if e := c.Err(); e != nil && !errors.Is(e, redis.Nil) {
			err = e
		}
	}
	return commands, err
}

// clocksKnown asks the shards whose clock is not known for their time.
func (s *Store) clocksKnown(ctx context.Context) error {
	var asked errgroup.Group
	here := s.opts.Now()
	for i := range s.clocks {
		if !s.clocks[i].known(here) {
			asked.Go(func() error { return s.askTime(ctx, i) })
		}
	}
	return asked.Wait()
}

// askTime asks a shard for its time, by a step that never fits.
func (s *Store) askTime(ctx context.Context, shard int) error {
	answer, err := script.Run(ctx, s.client, []string{s.names[shard] + "clock", s.dues[shard]},
		"none", "", "", "", 0, 0, 1, "", "-", 0)
	if err != nil {
		return err
	}
	var now int64
	if err := scan(answer, &now); err != nil {
		return err
	}
	s.clocks[shard].set(now, s.opts.Now())
	return nil
}

// Reach reports whether Redis answers.
func (s *Store) Reach(ctx context.Context) error { return s.askTime(ctx, 0) }

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
	counts, err := ask(ctx, s, shards, func(i int) *redis.IntCmd { return redis.NewIntCmd(ctx, "zcard", s.dues[i]) })
	if err != nil {
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
	registers, err := s.get(ctx, len(groups), func(i int) string { return s.groupKey(groups[i]) })
	quotas, quotasErr := s.get(ctx, len(levels), func(i int) string { return s.quotaKey(levels[i]) })
	if err := errors.Join(err, quotasErr); err != nil {
		return state, fmt.Errorf("look into redis: %w", err)
	}
	for i, c := range registers {
		if c.Val() == "" {
			continue
		}
		r, err := decode(c.Val())
		if err != nil {
			return state, err
		}
		state.Groups[groups[i]] = r.group
		state.At = s.now(groups[i])
	}
	for i, c := range quotas {
		var v rules.Level
		if _, err := fmt.Sscanf(c.Val(), "%d %d", &v.Used, &v.At); err == nil {
			state.Levels[levels[i]] = v
		}
	}
	return state, nil
}
