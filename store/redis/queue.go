package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// Claim implements store.Queue. If a server does not answer, what it holds is missing and the error says so.
func (s *Store) Claim(
	ctx context.Context, _ time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	if n <= 0 {
		return nil, nil
	}
	var found [shards][]rules.DueGroup
	var limits [shards]time.Time
	var asked errgroup.Group
	asked.SetLimit(tripsAtOnce)
	for i := range shards {
		asked.Go(func() (err error) {
			found[i], limits[i], err = s.due(ctx, i, ahead)
			return err
		})
	}
	err := asked.Wait()
	writes, readErr := s.read(ctx, s.turns.Pick(slices.Concat(found[:]...), n, claimed), &limits)
	if err = errors.Join(err, readErr); err != nil {
		err = fmt.Errorf("read what is due: %w", err)
	}
	return writes, err
}

// due are registers of a shard of which something is due, and by when it is, by the clock of the shard.
func (s *Store) due(ctx context.Context, shard int, ahead time.Duration) ([]rules.DueGroup, time.Time, error) {
	answer, err := script.Run(ctx, s.client, []string{s.dues[shard]},
		"due", rules.By(time.UnixMicro(0), ahead).UnixMicro(), s.looked[shard].Load(), indexed)
	var now int64
	var members []any
	if err == nil {
		err = scan(answer, &now, &members)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	s.clocks[shard].set(now, s.opts.Now())
	if len(members) < 2*indexed {
		s.looked[shard].Store(0)
	} else {
		s.looked[shard].Add(indexed)
	}
	var due []rules.DueGroup
	for ; len(members) >= 2; members = members[2:] {
		var name, score string
		if err := scan(members, &name, &score); err != nil {
			return nil, time.Time{}, err
		}
		if at, err := strconv.ParseFloat(score, 64); err == nil && len(name) >= len(store.Key{}) {
			due = append(due, rules.DueGroup{Group: store.Key([]byte(name[:16])), Namespace: name[16:], Due: int64(at)})
		}
	}
	return due, rules.By(time.UnixMicro(now), ahead), nil
}

// read reads what is due of registers.
func (s *Store) read(ctx context.Context, due []rules.DueGroup, limits *[shards]time.Time) ([]store.PendingWrite, error) {
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

// ask runs n commands and returns them. That a key does not exist is no error.
func ask[C redis.Cmder](ctx context.Context, s *Store, n int, command func(i int) C) ([]C, error) {
	if n == 0 {
		return nil, nil
	}
	commands, all := make([]C, n), make([]redis.Cmder, n)
	for i := range n {
		commands[i] = command(i)
		all[i] = commands[i]
	}
	_ = s.client.Call(ctx, all...) // each command has its error
	err := ctx.Err()
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if e := c.Err(); e != nil && !errors.Is(e, redis.Nil) {
			err = e
		}
	}
	return commands, err
}

// Reach reports whether Redis answers.
func (s *Store) Reach(ctx context.Context) error {
	_, err := s.get(ctx, 1, func(int) string { return s.prefixes[0] })
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
