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
	if m.ClockJumps && w.spend("") && w.quietly() {
		for _, d := range []time.Duration{3 * time.Second, -3 * time.Second, time.Minute} {
			as.add(1, func() { w.spend("jump"); w.jumped += d }, fmt.Sprintf("the clock of Redis jumps by %v", d))
		}
	}
	if m.Failover {
		as.add(1, func() {
			c := w.redis.Copy()
			w.copied = &c
		}, "a replica of Redis has all that Redis has")
		if w.copied != nil && w.spend("") {
			as.add(2, func() { w.spend("failover"); w.redis.Restore(*w.copied) }, "Redis fails over to the replica")
		}
	}
	if m.PartialLoss && w.spend("") {
		for _, key := range append(w.redis.Keys(false), w.redis.Keys(true)...) {
			as.add(1, func() { w.spend("loss"); w.redis.Lose(key) }, "Redis loses "+w.keyName(key))
		}
	}
	if m.Junk && w.spend("") {
		for _, key := range w.redis.Keys(false) {
			if name := w.keyName(key); name != key && !strings.HasPrefix(name, "the notice") && w.spent == 0 {
				as.add(1, func() { w.spend("junk"); w.junked = name; w.redis.Overwrite(key, "0123456789abcdef-junk") }, "another program overwrites "+name)
			}
		}
	}
	if m.SlotMoves {
		w.slotActions(as)
	}
}

func (w *world) slotActions(as *actions) {
	seen := map[int]bool{}
	for _, key := range append(w.redis.Keys(false), w.redis.Keys(true)...) {
		slot := luaredis.Slot(key)
		if seen[slot] {
			continue
		}
		seen[slot] = true
		if w.redis.Moving[slot] != "" {
			as.add(3, func() { delete(w.redis.Moving, slot) }, "the slot of "+w.keyName(key)+" has moved")
			continue
		}
		for _, said := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN Hash slot not served", fmt.Sprintf("MOVED %d 10.0.0.1:6379", slot)} {
			word, _, _ := strings.Cut(said, " ")
			if w.spend("") {
				as.add(1, func() { w.spend("move"); w.redis.Moving[slot] = said }, "the slot of "+w.keyName(key)+" moves: "+word)
			}
		}
	}
}
