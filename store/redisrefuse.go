package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/tinylib/msgp/msgp"
)

// refusedAtOnce bounds the groups whose refusals go to Redis in one trip.
const refusedAtOnce = 256

// takeRefusals tells Redis what this replica refused by itself.
func (r *Redis) takeRefusals(ctx context.Context, list []refusal) error {
	for part := range slices.Chunk(list, refusedAtOnce) {
		var all trip
		for i := range part {
			all.add(r.scripts.refuse, r.keys(part[i].group), r.packRefusal(&part[i]))
		}
		if err := all.send(ctx, r.client); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("tell what was refused: %w", err)
		}
	}
	return nil
}

func (r *Redis) packRefusal(o *refusal) []byte {
	b := msgp.AppendInt64(nil, r.now(o.last))
	b = appendKey(b, o.replica)
	b = msgp.AppendInt64(b, o.serial)
	b = msgp.AppendStringFromBytes(b, packOrigin(o.namespace, o.subject))
	b = appendDuration(b, o.flush)
	b = appendDuration(b, o.window)
	b = msgp.AppendArrayHeader(b, uint32(3*len(o.names)))
	for _, n := range o.names {
		b = appendKey(b, n.name)
		b = msgp.AppendInt64(b, n.count)
		b = msgp.AppendString(b, n.reason)
	}
	return appendTallies(b, o.more)
}
