package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

const (
	// indexPage is how many entries of the index one script reads, and indexPages how many pages a claim reads. Both stay
	// short, however many writes are due. The next claim continues where the last one ended, so no namespace hides another.
	indexPage, indexPages = 1024, 16
	// registersPerRead is how many registers one script reads.
	registersPerRead = 64
	// beforeAll is earlier than any due time.
	beforeAll = -math.MaxInt64
	// completeTimeout bounds Complete, which may wait longer than a decision.
	completeTimeout = 2 * time.Second
)

var errBacklog = errors.New("this replica has not reported all of its decisions to Redis")

// Claim implements store.Queue. If Redis does not answer, it returns an error with the writes that it has read. Registers that cannot be
// read are skipped for a while, so that they do not take the turns of others. Before it claims ahead, it flushes the backlog: a settler
// that makes its last writes would otherwise miss what this replica has not reported yet.
func (s *Store) Claim(
	ctx context.Context, _ time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	if n <= 0 {
		return nil, nil
	}
	answered := ahead <= 0 || s.Flush(ctx)
	due, err := s.due(ctx, ahead)
	if !answered {
		err = errors.Join(errBacklog, err)
	}
	skip := func(turn string, register store.Key) bool {
		return s.unreadable.has(register, s.opts.Now()) || claimed(turn, register)
	}
	var writes []store.PendingWrite
	for picked := range slices.Chunk(s.turns.Pick(engine.DueQueues(due), n, skip), registersPerRead) {
		some, readErr := s.claim(ctx, picked, ahead)
		writes, err = append(writes, some...), errors.Join(err, readErr)
	}
	if err == nil {
		err = s.correct(ctx)
	}
	if err != nil {
		err = fmt.Errorf("read due writes: %w", err)
	}
	return writes, err
}

// due returns registers with writes that are due by ahead. After the end of the index it reads on from the beginning.
func (s *Store) due(ctx context.Context, ahead time.Duration) (due []engine.DueGroup, err error) {
	first := s.claimOffset.Load()
	for range indexPages {
		from := s.claimOffset.Load()
		page, err := s.page(ctx, beforeAll, ahead, from, indexPage)
		if err != nil {
			return due, err
		}
		due = append(due, page.due...)
		next := from + indexPage
		if !page.full {
			next = 0
		}
		s.claimOffset.Store(next)
		if next == first || next == 0 && from < first {
			break // the whole index has been read
		}
	}
	return due, nil
}

// page is a part of the index, and whether more may follow.
type page struct {
	due  []engine.DueGroup
	full bool
}

// page reads n entries of the index from the given one on. They are due from after to by, both relative to now.
func (s *Store) page(ctx context.Context, after, by time.Duration, from, n int64) (p page, err error) {
	answer, err := s.run(ctx, []string{s.index}, "due", after.Microseconds(), engine.DueBy(time.UnixMicro(0), by).UnixMicro(), from, n)
	if err != nil {
		return p, err
	}
	var now int64
	var entries []any
	if err := scan(answer, &now, &entries); err != nil {
		return p, err
	}
	p.full = int64(len(entries)) >= 2*n
	for ; len(entries) >= 2; entries = entries[2:] {
		var name, score string
		if err := scan(entries, &name, &score); err != nil {
			return p, err
		}
		if at, err := strconv.ParseFloat(score, 64); err == nil && len(name) >= len(store.Key{}) {
			p.due = append(p.due, engine.DueGroup{Group: store.Key([]byte(name[:16])), Turn: name[16:], Due: int64(at)})
		}
	}
	return p, nil
}

// claim reads the due writes of registers. The script corrects the index.
func (s *Store) claim(ctx context.Context, due []engine.DueGroup, ahead time.Duration) ([]store.PendingWrite, error) {
	keys, args := []string{s.index}, []any{"claim"}
	for _, d := range due {
		keys, args = append(keys, s.groupKey(d.Group)), append(args, member(d.Group, d.Turn))
	}
	answer, err := s.run(ctx, keys, args...)
	if err != nil {
		return nil, err
	}
	if len(answer) != len(keys) {
		return nil, errAnswer
	}
	now, _ := answer[0].(int64)
	by := engine.DueBy(time.UnixMicro(now), ahead)
	var writes []store.PendingWrite
	for i, d := range due {
		value, _ := answer[1+i].(string)
		r, decodeErr := decode(value)
		if decodeErr != nil {
			s.unreadable.add(d.Namespace(), d.Group, s.opts.Now())
			err = errors.Join(err, decodeErr)
			continue
		}
		writes = append(writes, r.group.Claim(d.Group, by)...)
	}
	return writes, err
}

// Complete implements store.Queue.
func (s *Store) Complete(ctx context.Context, _ time.Time, p store.PendingWrite, o store.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	err := s.change(ctx, p.Namespace, p.Ref.Group, func(g *engine.Group, now time.Time, fresh store.Key) { g.Complete(now, fresh, &p, o) })
	if errors.Is(err, store.ErrUnconfirmed) {
		return nil // it waits in the backlog, and is carried out exactly once
	}
	return err
}

// change makes an attempt for a register, which also applies f unless that is nil.
func (s *Store) change(ctx context.Context, namespace string, register store.Key, f func(*engine.Group, time.Time, store.Key)) error {
	_, err := s.submit(ctx, register, &call{namespace: namespace, change: f})
	return err
}

// Pending implements store.Queue.
func (s *Store) Pending(ctx context.Context) (int64, error) {
	n, err := s.count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count pending writes: %w", err)
	}
	return n, nil
}

// count returns the number of registers in the index. It fails if Redis cannot access the other keys too.
func (s *Store) count(ctx context.Context, others ...string) (n int64, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	answer, err := s.run(ctx, append([]string{s.index}, others...), "pending")
	if err != nil {
		return 0, err
	}
	var now int64
	err = scan(answer, &now, &n)
	return n, err
}

// Probe reports whether Redis answers, even for registers that do not exist yet. While a slot of a Redis Cluster moves to
// another server, Redis answers TRYAGAIN if only some keys of a script exist on the server.
func (s *Store) Probe(ctx context.Context) error {
	_, err := s.count(ctx, s.prefix+"missing")
	return err
}

// Peek returns copies of groups and of the bucket states of quotas. The Snapshot omits those that do not exist.
func (s *Store) Peek(ctx context.Context, groups, buckets []store.Key) (engine.Snapshot, error) {
	state := engine.Snapshot{At: s.opts.Now(), Groups: map[store.Key]*engine.Group{}, Buckets: map[store.Key]engine.BucketState{}}
	keys := make([]string, 0, len(groups)+len(buckets))
	for _, group := range groups {
		keys = append(keys, s.groupKey(group))
	}
	for _, quota := range buckets {
		keys = append(keys, s.quotaKey(quota))
	}
	var values []string
	for some := range slices.Chunk(keys, registersPerRead) {
		at, texts, err := s.peek(ctx, some)
		if err != nil {
			return state, fmt.Errorf("read from Redis: %w", err)
		}
		state.At, values = at, append(values, texts...)
	}
	for i, group := range groups {
		if values[i] == "" {
			continue
		}
		r, err := decode(values[i])
		if err != nil {
			return state, err
		}
		state.Groups[group] = r.group
	}
	for i, quota := range buckets {
		if v, known := parseBucketState(values[len(groups)+i]); known {
			state.Buckets[quota] = v
		}
	}
	return state, nil
}

// peek reads the values of keys, and returns the time of Redis.
func (s *Store) peek(ctx context.Context, keys []string) (at time.Time, values []string, err error) {
	answer, err := s.run(ctx, keys, "peek")
	if err != nil {
		return at, nil, err
	}
	if len(answer) != 1+len(keys) {
		return at, nil, errAnswer
	}
	now, _ := answer[0].(int64)
	for _, value := range answer[1:] {
		text, _ := value.(string)
		values = append(values, text)
	}
	return time.UnixMicro(now).UTC(), values, nil
}
