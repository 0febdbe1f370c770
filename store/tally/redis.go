package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// atOnce bounds the IDs of one trip, so that Event writes on the same connection
// do not wait long behind it, and what a trip carries: 8 MB at the very most.
const atOnce = 256

// Client calls Redis. A *redisclient.Client is one.
type Client interface {
	// Call runs commands once each and at the same time, in one round trip to
	// each server concerned. It returns the first error. When that is the
	// context's, the commands may still be running.
	Call(ctx context.Context, cmds ...redis.Cmder) error
}

// shared is a Book in Redis. An ID is one value under one key, as in a Store: a
// step reads and writes it whole, and needs no more rights than those of a
// Store. Keys are spread over a Cluster by their names.
type shared struct {
	client Client
	prefix string
	now    func(time.Time) int64 // the time that scripts are told; 0 for the clock of Redis

	add, restore, read script
}

var _ Book = (*shared)(nil)

// NewRedis makes a Book that replicas share, in the Redis of client, under keys
// that begin with prefix. It runs on the clock of Redis: the time that callers
// give is not used. An ID to which nothing was added for three days is
// forgotten, as is what Redis loses; Restore brings back the total.
func NewRedis(client Client, prefix string) Book {
	return &shared{
		client: client, prefix: prefix, now: func(time.Time) int64 { return 0 },
		add: newScript("add"), restore: newScript("restore"), read: newScript("read"),
	}
}

func (r *shared) key(id ID) string {
	return r.prefix + "tally:" + id.UID + ":" + strconv.FormatInt(id.Generation, 10)
}

// Add implements Book, with one trip for each 256 entries. After an error some
// may have been taken in.
func (r *shared) Add(ctx context.Context, now time.Time, b Batch) error {
	from := sender{senderOf(b.Replica), b.Seq}
	for part := range slices.Chunk(b.Entries, atOnce) {
		calls := make([]*call, len(part))
		for i, e := range part {
			calls[i] = &call{key: r.key(e.ID), arg: packAdd(r.now(now), from, packEntry(e))}
		}
		if err := r.add.run(ctx, r.client, calls); err != nil {
			return fmt.Errorf("add to tallies in Redis: %w", err)
		}
	}
	return nil
}

// Read implements Book, with one trip for each 256 IDs.
func (r *shared) Read(ctx context.Context, now time.Time, ids []ID) (map[ID]Tally, error) {
	all := make(map[ID]Tally, len(ids))
	arg := appendNumbers(nil, r.now(now))
	for part := range slices.Chunk(ids, atOnce) {
		calls := make([]*call, len(part))
		for i, id := range part {
			calls[i] = &call{key: r.key(id), arg: arg}
		}
		if err := r.read.run(ctx, r.client, calls); err != nil {
			return nil, fmt.Errorf("read tallies from Redis: %w", err)
		}
		for i, id := range part {
			t, err := readTally(calls[i].Cmd)
			if err != nil {
				return nil, fmt.Errorf("read tally of %s, generation %d, from Redis: %w", id.UID, id.Generation, err)
			}
			if t != nil {
				all[id] = *t
			}
		}
	}
	return all, nil
}

// readTally reads an answer of read.lua. It is nil when there is no ledger.
func readTally(answer *redis.Cmd) (*Tally, error) {
	parts, err := answer.Slice()
	if err != nil {
		return nil, err
	}
	if len(parts) == 2 && parts[1] == nil {
		return nil, nil //nolint:nilnil // nothing is known, and nothing failed
	}
	if len(parts) != 2 {
		return nil, fmt.Errorf("%d parts in the answer of a script, want 2", len(parts))
	}
	now, isTime := parts[0].(int64)
	packed, isText := parts[1].(string)
	if !isTime || !isText {
		return nil, errors.New("the answer of a script is not a time and a ledger")
	}
	l, err := unpackLedger(packed)
	if err != nil {
		return nil, err
	}
	t, err := l.tally(now)
	return &t, err
}

// Restore implements Book.
func (r *shared) Restore(ctx context.Context, now time.Time, id ID, since time.Time, total Counts) error {
	one := &call{key: r.key(id), arg: packRestore(r.now(now), clockSince(since), total.limited())}
	if err := r.restore.run(ctx, r.client, []*call{one}); err != nil {
		return fmt.Errorf("restore tally of %s, generation %d, in Redis: %w", id.UID, id.Generation, err)
	}
	return nil
}
