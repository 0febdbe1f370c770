package redis

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// item is one change of a register that Redis may not have: a decision with the tokens that it took, drops for
// its notice, or a change by a function.
type item struct {
	decision *engine.DeferredDecision
	tokens   tokenRequests
	drops    engine.DropList
	change   func(g *engine.Group, now time.Time, fresh store.Key)
	// attempt is the number of the first attempt that had the item and whose answer was lost; 0 for none. The register has
	// the item if it has an attempt with this number or a higher one.
	attempt uint64
}

// newDecisionItem returns the item of a decision. It copies only the necessary, clipped parts of the request.
func newDecisionItem(d *engine.DeferredDecision) item {
	it := item{decision: d.Compact()}
	if takesTokens(d.Decision) {
		it.tokens.add(d.Limits.Quotas)
	}
	return it
}

// apply applies an item to a copy of its register.
func (it *item) apply(g *engine.Group, now time.Time, fresh store.Key) {
	switch {
	case it.decision != nil:
		g.Apply(now, fresh, it.decision)
	case it.change != nil:
		it.change(g, now, fresh)
	default:
		for i := range it.drops {
			g.AddDrops(now, fresh, &it.drops[i])
		}
	}
}

// itemBytes is the size of an item without its texts, and requestBytes the size of each bucket in it.
const itemBytes, requestBytes = 256, 48

func (it *item) size() int64 {
	n := itemBytes + int64(len(it.tokens))*requestBytes + it.drops.Size()
	if it.decision != nil {
		n += it.decision.Size()
	}
	return n
}

// registerBacklog has the items that wait for one register, in the order of their decisions, and then drops, in any order.
type registerBacklog struct {
	namespace string
	since     time.Time
	items     []item
	byJoinKey map[store.Key]int // indexes of items that others can be joined to, by joinKey
	drops     engine.DropList
	bytes     int64 // size of items
}

// add adds an item. It joins first occurrences that were merged into the same Event, or refused by the same bucket for the
// same reason. It joins other occurrences by the name of their Event.
func (rb *registerBacklog) add(it item) {
	if it.decision == nil && it.change == nil && it.attempt == 0 {
		for i := range it.drops {
			rb.drops.Merge(&it.drops[i])
		}
		return
	}
	if it.decision == nil || it.decision.Decision.Verdict.Admits() || it.attempt != 0 {
		rb.append(it)
		return
	}
	key := joinKey(it.decision)
	i, known := rb.byJoinKey[key]
	if !known {
		if rb.byJoinKey == nil {
			rb.byJoinKey = map[store.Key]int{}
		}
		rb.byJoinKey[key] = len(rb.items)
		rb.append(it)
		return
	}
	was := rb.items[i].decision
	rb.bytes -= was.Size()
	if isFirst(it.decision) {
		was.Join(it.decision)
	} else {
		was.JoinCount(it.decision)
	}
	rb.bytes += was.Size()
}

func (rb *registerBacklog) append(it item) {
	rb.items = append(rb.items, it)
	rb.bytes += it.size()
}

// all returns all items, including the drops.
func (rb *registerBacklog) all() []item {
	if len(rb.drops) == 0 {
		return rb.items
	}
	return append(rb.items, item{drops: rb.drops})
}

// isFirst reports whether a decision is about the first occurrence under the name of its Event.
func isFirst(d *engine.DeferredDecision) bool {
	return d.Write.Count <= 1 && d.Write.Update == nil && d.Decision.Repeats == 0
}

// joinKey returns the key that joined decisions share.
func joinKey(d *engine.DeferredDecision) store.Key {
	h := new(store.Hasher).Add(d.Decision.Verdict.String(), d.Decision.MergedInto, d.Write.Reason, strconv.FormatBool(d.Write.Warning))
	if d.Decision.RefusedBy != nil {
		h.AddKey(d.Decision.RefusedBy.Key)
	}
	if !isFirst(d) {
		h.Add(d.Write.Name, strconv.FormatBool(d.Write.Update != nil))
	}
	return h.Sum()
}

// backlog has the items that wait in a replica, by register, within a number of bytes that namespaces share.
type backlog struct {
	mu  sync.Mutex
	lru *store.FairLRU[*registerBacklog]
}

const (
	// backlogBytes bounds the backlog, and registerBacklogBytes is the size of a register in it without items.
	backlogBytes         = 64 << 20
	registerBacklogBytes = 512
)

func newBacklog(bytes int64) *backlog {
	return &backlog{lru: store.NewFairLRU[*registerBacklog](bytes)}
}

// update finds or creates the backlog of a register, whose oldest item is from since, and calls f to change it.
func (b *backlog) update(since time.Time, namespace string, register store.Key, f func(*registerBacklog)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.lru.Get(register)
	if e == nil {
		e = b.lru.Add(register, namespace, &registerBacklog{namespace: namespace, since: since})
	}
	rb := e.Value
	f(rb)
	if since.Before(rb.since) {
		rb.since = since
	}
	b.lru.Update(e, registerBacklogBytes+rb.bytes+rb.drops.Size(), false)
}

// add adds an item behind all others of a register.
func (b *backlog) add(now time.Time, namespace string, register store.Key, it item) {
	b.update(now, namespace, register, func(rb *registerBacklog) { rb.add(it) })
}

// addDrops adds drops for the notice of a register.
func (b *backlog) addDrops(now time.Time, namespace string, register store.Key, d *engine.Drops) {
	b.update(now, namespace, register, func(rb *registerBacklog) { rb.drops.Merge(d) })
}

// take removes and returns the backlog of a register, or nil.
func (b *backlog) take(register store.Key) *registerBacklog {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.lru.Get(register)
	if e == nil {
		return nil
	}
	b.lru.Remove(e)
	return e.Value
}

// prepend adds items, the oldest of which is from since, before all others of a register.
func (b *backlog) prepend(since time.Time, namespace string, register store.Key, items []item) {
	if len(items) == 0 {
		return
	}
	b.update(since, namespace, register, func(rb *registerBacklog) {
		newer := *rb
		*rb = registerBacklog{namespace: newer.namespace, since: newer.since, drops: newer.drops}
		for _, it := range items {
			rb.add(it)
		}
		for _, it := range newer.items {
			rb.add(it)
		}
	})
}

// copyItems returns a copy of the items that wait for a register.
func (b *backlog) copyItems(register store.Key) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.lru.Get(register)
	if e == nil {
		return nil
	}
	items := make([]item, 0, len(e.Value.items)+1)
	for _, it := range e.Value.items {
		if it.decision != nil { // others may be joined to it
			d := *it.decision
			it.decision = &d
		}
		items = append(items, it)
	}
	if drops := e.Value.drops.Clone(); len(drops) > 0 {
		items = append(items, item{drops: drops})
	}
	return items
}

// waitingSince returns the registers whose oldest item is from since or earlier, in the order of their keys. Items in an attempt
// do not count.
func (b *backlog) waitingSince(since time.Time) []backlogKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []backlogKey
	for key, e := range b.lru.All() {
		if !e.Value.since.After(since) {
			found = append(found, backlogKey{key, e.Value.namespace})
		}
	}
	slices.SortFunc(found, func(a, b backlogKey) int { return bytes.Compare(a.key[:], b.key[:]) })
	return found
}

// backlogKey names a register that has a backlog.
type backlogKey struct {
	key       store.Key
	namespace string
}

// evict removes and returns the backlog of one register if there is too much; otherwise it returns nil.
func (b *backlog) evict() *store.Entry[*registerBacklog] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lru.Evict(0)
}

// markSent marks an item with the number of the first attempt whose answer was lost.
func (it *item) markSent(n uint64) { it.attempt = cmp.Or(it.attempt, n) }
