package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

var _ Heir = (*Redis)(nil)

// Inherit implements Heir.
func (r *Redis) Inherit(ctx context.Context, now time.Time, l Legacy) error {
	var one trip
	one.add(r.scripts.inherit, r.keys(l.Group), packLegacy(r.now(now), l))
	if err := one.send(ctx, r.client); err != nil {
		return fmt.Errorf("inherit: %w", err)
	}
	return nil
}

// packLegacy packs l for inherit.lua.
func packLegacy(now int64, l Legacy) []byte {
	var window time.Duration
	for i := range l.Events {
		window = max(window, l.Events[i].Window)
	}
	b := msgp.AppendInt64(nil, now)
	b = appendKey(b, l.ID)
	b = msgp.AppendStringFromBytes(b, packOrigin(l.Namespace, l.Subject))
	b = appendDuration(b, window)
	b = msgp.AppendArrayHeader(b, uint32(len(l.Events)))
	for i := range l.Events {
		b = appendLegacyEvent(b, &l.Events[i])
	}
	b = msgp.AppendArrayHeader(b, uint32(4*len(l.Names)))
	for _, n := range l.Names {
		b = appendKey(b, n.Name)
		b = msgp.AppendInt64(b, n.Count)
		b = msgp.AppendInt64(b, n.Base)
		b = msgp.AppendInt(b, n.Into+1) // lists begin at 1 there
	}
	return b
}

// legacyParts is how many parts an Event of a Legacy has in inherit.lua.
const legacyParts = 20

func appendLegacyEvent(b []byte, e *LegacyEvent) []byte {
	b = msgp.AppendArrayHeader(b, legacyParts)
	b = msgp.AppendString(b, e.Name)
	if e.Name == "" {
		b = appendKey(b, Key{})
	} else {
		b = appendKey(b, KeyOf(e.Name))
	}
	b = appendKey(b, e.Key)
	b = msgp.AppendInt64(b, e.Since)
	b = msgp.AppendInt64(b, e.Own)
	b = msgp.AppendInt64(b, e.Base)
	b = msgp.AppendInt64(b, e.Adopted)
	b = msgp.AppendBool(b, e.Stored)
	b = msgp.AppendInt64(b, e.Written)
	b = msgp.AppendInt64(b, e.LastWrite/int64(time.Microsecond))
	b = msgp.AppendInt64(b, e.Seen/int64(time.Microsecond))
	b = appendDuration(b, e.Flush)
	b = appendDuration(b, e.Window)
	b = msgp.AppendString(b, e.Reason)
	b = msgp.AppendBool(b, e.Series)
	b = msgp.AppendBool(b, e.Aggregate)
	b = appendTime(b, e.At)
	b = appendTallies(b, e.Messages)
	b = appendTallies(b, e.Reasons)
	return appendTime(b, e.First)
}
