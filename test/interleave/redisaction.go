package interleave

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/interleave/luaredis"
)

// redisActions are faults of Redis itself.
func (w *world) redisActions(as *actions) {
	m := w.mix
	if m.ClockJumps && w.allowFault("") && w.apiIdle() {
		for _, d := range []time.Duration{3 * time.Second, -3 * time.Second, time.Minute} {
			as.add(1, func() { w.allowFault("jump"); w.jumped += d }, fmt.Sprintf("the clock of Redis jumps by %v", d))
		}
	}
	if m.Failover {
		as.add(1, func() {
			c := w.redis.Copy()
			w.copied = &c
		}, "a replica of Redis has all that Redis has")
		if w.copied != nil && w.allowFault("") {
			as.add(2, func() { w.allowFault("failover"); w.redis.Restore(*w.copied) }, "Redis fails over to the replica")
		}
	}
	w.keyActions(as)
	if m.SlotMoves {
		w.slotActions(as)
	}
}

// keyActions are faults of one key.
func (w *world) keyActions(as *actions) {
	m := w.mix
	if m.PartialLoss && w.allowFault("") {
		for _, key := range append(w.redis.Keys(false), w.redis.Keys(true)...) {
			as.add(1, func() { w.allowFault("loss"); w.redis.Lose(key) }, "Redis loses "+w.keyName(key))
		}
	}
	if m.Junk && w.allowFault("") {
		for _, key := range w.redis.Keys(false) {
			if name := w.keyName(key); name != key && !strings.HasPrefix(name, "the notice") && w.spent == 0 {
				as.add(1, func() { w.allowFault("junk"); w.overwritten = name; w.redis.Overwrite(key, "0123456789abcdef-junk") }, "another program overwrites "+name)
			}
		}
	}
}

// slotActions let the one slot in which everything is move to another server, key by key, or be served by none.
func (w *world) slotActions(as *actions) {
	keys := append(w.redis.Keys(false), w.redis.Keys(true)...)
	for _, said := range w.redis.Moving {
		as.add(1, w.moved, "the slot has moved")
		if strings.HasPrefix(said, "TRYAGAIN") {
			for _, key := range keys {
				if !w.redis.Moved[key] {
					as.add(2, func() { w.redis.Moved[key] = true }, w.keyName(key)+" moves")
				}
			}
		}
		return
	}
	if len(keys) == 0 || !w.allowFault("") {
		return
	}
	slot := luaredis.Slot(keys[0])
	for _, said := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN Hash slot not served", fmt.Sprintf("MOVED %d 10.0.0.1:6379", slot)} {
		word, _, _ := strings.Cut(said, " ")
		as.add(2, func() {
			w.allowFault("move")
			w.redis.Moving[slot] = said
			for _, r := range w.replicas {
				r.openedBefore = r.opened
			}
		}, "the slot moves: "+word)
	}
}

// moved ends all moves of slots. While one moves, a breaker opens once and stays open: what probes succeed is to be like what
// the store sends.
func (w *world) moved() {
	if len(w.redis.Moving) == 0 {
		return
	}
	clear(w.redis.Moving)
	clear(w.redis.Moved)
	for _, r := range w.replicas {
		if n := r.opened - r.openedBefore; n > 1 {
			w.violated(kindBreakerFlaps, "the breaker of %s opens %d times while one slot moves", r.name, n)
		}
	}
}
