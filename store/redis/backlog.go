package redis

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// item is one change of a register that Redis does not surely know: a decision with the tokens that it took, drops for
// its notice, or what change does.
type item struct {
	op     *rules.Op
	given  uses
	drops  rules.DropList
	change func(g *rules.Group, now time.Time, fresh store.Key)
	// number is that of the first attempt that carried it and whose answer was lost; 0 for none. The register has taken
	// it if it has taken an attempt of that number or a higher one.
	number uint64
}

// decided is the item of a decision. It keeps nothing of the request but what it needs, clipped.
func decided(o *rules.Op) item {
	it := item{op: o.Compact()}
	if pays(o.Decision) {
		it.given.pay(o.Limits.Quotas)
	}
	return it
}

// apply adds an item to a copy of its register.
func (it *item) apply(g *rules.Group, now time.Time, fresh store.Key) {
	switch {
	case it.op != nil:
		g.Report(now, fresh, it.op)
	case it.change != nil:
		it.change(g, now, fresh)
	default:
		for i := range it.drops {
			g.AddDrops(now, fresh, &it.drops[i])
		}
	}
}

// itemBytes are those of an item without its texts; useBytes those of one bucket in it.
const itemBytes, useBytes = 256, 48

func (it *item) size() int64 {
	n := itemBytes + int64(len(it.given))*useBytes + it.drops.Size()
	if it.op != nil {
		n += it.op.Size()
	}
	return n
}

// waiting is what waits for one register, in the order in which it was decided. Drops come last, in any order.
type waiting struct {
	namespace string
	since     time.Time
	items     []item
	joined    map[store.Key]int // of the items that others like them join, by what they have in common
	drops     rules.DropList
	bytes     int64 // of items
}

// add adds an item. First occurrences are joined that were merged into one Event, or refused by one bucket for one
// reason; others by the name of their Event.
func (wt *waiting) add(it item) {
	if it.op == nil && it.change == nil && it.number == 0 {
		for i := range it.drops {
			wt.drops.Merge(&it.drops[i])
		}
		return
	}
	if it.op == nil || it.op.Decision.Verdict.Admits() || it.number != 0 {
		wt.append(it)
		return
	}
	key := alike(it.op)
	i, known := wt.joined[key]
	if !known {
		if wt.joined == nil {
			wt.joined = map[store.Key]int{}
		}
		wt.joined[key] = len(wt.items)
		wt.append(it)
		return
	}
	was, o := wt.items[i].op, it.op
	wt.bytes -= was.Size()
	occurrences := was.Decision.Occurrences + o.Decision.Occurrences
	switch {
	case first(o):
		was.Join(o)
	case o.Write.Count >= was.Write.Count:
		more, at := was.More, was.At
		*was = *o
		was.More, was.At = was.More+more, at
	}
	was.Decision.Occurrences = occurrences
	wt.bytes += was.Size()
}

func (wt *waiting) append(it item) {
	wt.items = append(wt.items, it)
	wt.bytes += it.size()
}

// all are all its items.
func (wt *waiting) all() []item {
	if len(wt.drops) == 0 {
		return wt.items
	}
	return append(wt.items, item{drops: wt.drops})
}

// first reports whether a decision is about the first occurrence under its name.
func first(o *rules.Op) bool { return o.Write.Count <= 1 && o.Write.Update == nil }

// alike is what decisions have in common that are joined.
func alike(o *rules.Op) store.Key {
	h := new(store.Hasher).Add(o.Decision.Verdict.String(), o.Decision.Into, o.Write.Reason, strconv.FormatBool(o.Write.Warning))
	if o.Decision.Empty != nil {
		h.AddKey(o.Decision.Empty.Key)
	}
	if !first(o) {
		h.Add(o.Write.Name, strconv.FormatBool(o.Write.Update != nil))
	}
	return h.Sum()
}

// backlog is what waits in a replica, by register, within a bound of bytes that namespaces share.
type backlog struct {
	mu  sync.Mutex
	all *store.Table[*waiting]
}

const (
	// backlogBytes bounds the backlog, and waitingBytes are those of a register in it without its items.
	backlogBytes = 64 << 20
	waitingBytes = 512
)

func newBacklog(bytes int64) *backlog { return &backlog{all: store.NewTable[*waiting](bytes)} }

// change finds or makes what waits for a register since then, and calls f to change it.
func (b *backlog) change(since time.Time, namespace string, register store.Key, f func(*waiting)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all.Get(register)
	if e == nil {
		e = b.all.Add(register, namespace, &waiting{namespace: namespace, since: since})
	}
	wt := e.Value
	f(wt)
	if since.Before(wt.since) {
		wt.since = since
	}
	b.all.Set(e, waitingBytes+wt.bytes+wt.drops.Size(), false)
}

// add adds an item after all others of a register.
func (b *backlog) add(now time.Time, namespace string, register store.Key, it item) {
	b.change(now, namespace, register, func(wt *waiting) { wt.add(it) })
}

// drop adds drops to those for the notice of a register.
func (b *backlog) drop(now time.Time, namespace string, register store.Key, d *rules.Drops) {
	b.change(now, namespace, register, func(wt *waiting) { wt.drops.Merge(d) })
}

// take removes and returns what waits for a register; nil for nothing.
func (b *backlog) take(register store.Key) *waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all.Get(register)
	if e == nil {
		return nil
	}
	b.all.Remove(e)
	return e.Value
}

// putBack adds items that have waited since then before all others of a register.
func (b *backlog) putBack(since time.Time, namespace string, register store.Key, items []item) {
	if len(items) == 0 {
		return
	}
	b.change(since, namespace, register, func(wt *waiting) {
		newer := *wt
		*wt = waiting{namespace: newer.namespace, since: newer.since, drops: newer.drops}
		for _, it := range items {
			wt.add(it)
		}
		for _, it := range newer.items {
			wt.add(it)
		}
	})
}

// copyOf are the items that wait for a register, which are not to be changed.
func (b *backlog) copyOf(register store.Key) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all.Get(register)
	if e == nil {
		return nil
	}
	items := make([]item, 0, len(e.Value.items)+1)
	for _, it := range e.Value.items {
		if it.op != nil { // others may join it
			o := *it.op
			it.op = &o
		}
		items = append(items, it)
	}
	if drops := e.Value.drops.Clone(); len(drops) > 0 {
		items = append(items, item{drops: drops})
	}
	return items
}

// registers are those for which something has waited since then or longer, in the order of their keys. What an attempt takes
// to Redis waits no more.
func (b *backlog) registers(since time.Time) []waitingRegister {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []waitingRegister
	for key, e := range b.all.All() {
		if !e.Value.since.After(since) {
			found = append(found, waitingRegister{key, e.Value.namespace})
		}
	}
	slices.SortFunc(found, func(a, b waitingRegister) int { return bytes.Compare(a.key[:], b.key[:]) })
	return found
}

// waitingRegister is a register for which something waits.
type waitingRegister struct {
	key       store.Key
	namespace string
}

// evict removes and returns what waits for a register if it is too much; nil if not.
func (b *backlog) evict() *store.Entry[*waiting] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Evict(0)
}

// carried marks an item with the number of an attempt whose answer was lost.
func (it *item) carried(n uint64) { it.number = cmp.Or(it.number, n) }
