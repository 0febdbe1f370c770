package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tinylib/msgp/msgp"
)

// Settle implements Settling. A debt that is not known any more is let be.
func (r *Redis) Settle(ctx context.Context, now time.Time, d Debt, o Outcome) error {
	b := msgp.AppendInt64(nil, r.now(now))
	b = msgp.AppendUint64(b, d.Ref.ID)
	if d.Notice != nil {
		b = msgp.AppendString(b, "notice")
	} else {
		b = appendKey(b, KeyOf(d.Name))
	}
	b = msgp.AppendInt64(b, d.Total)
	b = msgp.AppendUint64(b, d.version)
	b = msgp.AppendUint64(b, d.stamp)
	b = msgp.AppendString(b, o.String())
	var one trip
	one.add(r.scripts.settle, r.keys(d.Ref.Group), b)
	if err := one.send(ctx, r.client); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("settle %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}
