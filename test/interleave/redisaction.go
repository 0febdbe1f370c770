package interleave

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/interleave/luaredis"
)

// redisActions adds faults of Redis itself.
func (w *world) redisActions(as *actions) {
	m := w.mix
	if m.ClockJumps && w.allowFault("") && w.apiIdle() {
		for _, d := range []time.Duration{3 * time.Second, -3 * time.Second, time.Minute} {
			as.add(1, func() { w.allowFault("jump"); w.clockOffset += d }, fmt.Sprintf("the clock of Redis jumps by %v", d))
		}
	}
	if m.Failover {
		as.add(1, func() {
			c := w.redis.Copy()
			w.redisCopy = &c
		}, "Redis replicates its data")
		if w.redisCopy != nil && w.allowFault("") {
			as.add(2, func() { w.allowFault("failover"); w.redis.Restore(*w.redisCopy) }, "Redis fails over to the replica")
		}
	}
	w.keyActions(as)
	if m.SlotMoves {
		w.slotActions(as)
	}
}

// keyActions adds faults of single keys.
func (w *world) keyActions(as *actions) {
	m := w.mix
	if m.PartialLoss && w.allowFault("") {
		for _, key := range append(w.redis.Keys(false), w.redis.Keys(true)...) {
			as.add(1, func() { w.allowFault("loss"); w.redis.Lose(key) }, "Redis loses "+w.keyName(key))
		}
	}
	if m.Junk && w.allowFault("") {
		for _, key := range w.redis.Keys(false) {
			if name := w.keyName(key); name != key && !strings.HasPrefix(name, "the notice") && w.faultsUsed == 0 {
				as.add(1, func() { w.allowFault("junk"); w.overwritten = name; w.redis.Overwrite(key, "0123456789abcdef-junk") }, "another program overwrites "+name)
			}
		}
	}
}

// slotActions adds steps that move the slot with all keys to another server, key by key, or that leave it without a server.
func (w *world) slotActions(as *actions) {
	keys := append(w.redis.Keys(false), w.redis.Keys(true)...)
	for _, reply := range w.redis.Moving {
		as.add(1, w.moved, "the slot has moved")
		if strings.HasPrefix(reply, "TRYAGAIN") {
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
	for _, reply := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN Hash slot not served", fmt.Sprintf("MOVED %d 10.0.0.1:6379", slot)} {
		word, _, _ := strings.Cut(reply, " ")
		as.add(2, func() {
			w.allowFault("move")
			w.redis.Moving[slot] = reply
			for _, r := range w.replicas {
				r.openedBefore = r.opened
			}
		}, "the slot moves: "+word)
	}
}

// moved ends all moves of slots. It reports a breaker that has opened more than once during a move, because a probe must not succeed while
// the store's commands fail.
func (w *world) moved() {
	if len(w.redis.Moving) == 0 {
		return
	}
	clear(w.redis.Moving)
	clear(w.redis.Moved)
	for _, r := range w.replicas {
		if n := r.opened - r.openedBefore; n > 1 {
			w.reportViolation(kindBreakerFlaps, "the breaker of %s opens %d times while one slot moves", r.name, n)
		}
	}
}
