package store

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// The default bounds of a namespace in a store.
const (
	// MaxBuckets bounds the token buckets of limits that are keyed by more than namespace and type, as clients choose how many
	// these are. A bucket exists until it is full again.
	MaxBuckets = 4096
	// MaxRegisters bounds the registers. A register has the state of one source, object and user, or a notice.
	MaxRegisters = 16384
	// MaxNodes is the largest number of nodes that Kubernetes supports. For each of them, ClusterNamespace and SystemNamespace
	// may have ExtraPerNode more buckets, and as many more registers.
	MaxNodes     = 5000
	ExtraPerNode = 4
	// ClusterNamespace has the Events about nodes, and SystemNamespace has pods on each node.
	ClusterNamespace = "default"
	SystemNamespace  = "kube-system"
)

// Bounds are the bounds of a store. The zero value means the defaults.
type Bounds struct {
	// Buckets and Registers are for each namespace. ClusterNamespace and SystemNamespace may have SystemExtra more of each.
	Buckets, Registers, SystemExtra int
}

// MaxBuckets returns how many buckets a namespace may have.
func (b Bounds) MaxBuckets(namespace string) int {
	return b.withDefaults().Buckets + b.extra(namespace)
}

// MaxRegisters returns how many registers a namespace may have.
func (b Bounds) MaxRegisters(namespace string) int {
	return b.withDefaults().Registers + b.extra(namespace)
}

func (b Bounds) withDefaults() Bounds {
	if b == (Bounds{}) {
		return Bounds{MaxBuckets, MaxRegisters, MaxNodes * ExtraPerNode}
	}
	return b
}

func (b Bounds) extra(namespace string) int {
	if namespace != ClusterNamespace && namespace != SystemNamespace {
		return 0
	}
	return b.withDefaults().SystemExtra
}

// OverflowSuffix follows the name of the limit in the name of its overflow bucket. No name of a limit ends like this.
const OverflowSuffix = " (overflow)"

// Overflow returns the overflow bucket of b's limit, which all further buckets of the limit share once the namespace has
// MaxBuckets. It does not count as a bucket itself. Notices about its drops are about the namespace.
func (b *Bucket) Overflow(namespace string) Bucket {
	o := *b
	o.Key, o.LimitID = KeyOf("overflow", b.LimitID, namespace), ""
	o.Name += OverflowSuffix
	o.NoticeObject = Object{APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace}
	return o
}

// UseOverflow replaces each quota that does not fit by its overflow bucket, in a copy of l.Quotas. It returns the first
// quota that did not fit, or nil.
func (l *Limits) UseOverflow(namespace string, fits func(*Bucket) bool) (first *Bucket) {
	for i := range l.Quotas {
		b := &l.Quotas[i]
		if b.LimitID == "" || fits(b) {
			continue
		}
		if first == nil {
			first = b
			l.Quotas = slices.Clone(l.Quotas)
		}
		l.Quotas[i] = b.Overflow(namespace)
	}
	return first
}

// SetUntracked changes l for a write that cannot have a register: nothing is merged, and all such writes of a policy share
// one spam filter in the namespace.
func (l *Limits) SetUntracked(w *Write) {
	quotas := make([]Bucket, 0, 1+len(l.Quotas))
	if !l.SpamFilter.Key.IsZero() && (w.Update == nil || w.Update.ByRecorder) {
		quotas = append(quotas, l.SpamFilter.Overflow(w.Namespace))
	}
	l.Quotas, l.SpamFilter, l.Merge = append(quotas, l.Quotas...), Bucket{}, false
}

// BoundedSet is a set of keys that expire, with a limit for each namespace. It is not safe for concurrent use.
type BoundedSet struct {
	limit      func(namespace string) int
	namespaces map[string]*boundedNamespace
}

// NewBoundedSet returns an empty set that can hold limit keys of a namespace.
func NewBoundedSet(limit func(namespace string) int) *BoundedSet {
	return &BoundedSet{limit: limit, namespaces: map[string]*boundedNamespace{}}
}

// CanHold reports whether a key is in the set at now, or can be added.
func (s *BoundedSet) CanHold(now time.Time, namespace string, key Key) bool {
	n := s.namespaces[namespace]
	if n == nil {
		return s.limit(namespace) > 0
	}
	n.expiries.popExpired(now, func(e *expiring) { delete(n.members, e.key) })
	return n.members[key] != nil || len(n.expiries) < s.limit(namespace)
}

// Put adds a key or changes its expiry. The caller checks CanHold first.
func (s *BoundedSet) Put(namespace string, key Key, until time.Time) {
	n := s.namespaces[namespace]
	if n == nil {
		n = &boundedNamespace{members: map[Key]*expiring{}}
		s.namespaces[strings.Clone(namespace)] = n
	}
	e := n.members[key]
	if e == nil {
		e = &expiring{key: key}
		n.members[key] = e
	}
	n.expiries.set(e, until)
}

// Remove removes a key, if it is in the set.
func (s *BoundedSet) Remove(namespace string, key Key) {
	n := s.namespaces[namespace]
	if n == nil {
		return
	}
	if e := n.members[key]; e != nil {
		n.expiries.remove(e)
		delete(n.members, key)
	}
	if len(n.members) == 0 {
		delete(s.namespaces, namespace)
	}
}

// boundedNamespace has the keys of one namespace.
type boundedNamespace struct {
	members  map[Key]*expiring
	expiries expiryHeap
}

// expiring is a key and its expiry.
type expiring struct {
	key       Key
	expiresAt int64 // in microseconds of Unix time
	index     int   // in its heap, from 1; 0 if it is not in one
}

// expiryHeap is a heap of keys. The one that expires first comes first.
type expiryHeap []*expiring

// set sets the expiry of one, and adds it if necessary.
func (e *expiryHeap) set(one *expiring, until time.Time) {
	one.expiresAt = until.UnixMicro()
	if one.index == 0 {
		heap.Push(e, one)
	}
	heap.Fix(e, one.index-1)
}

func (e *expiryHeap) remove(one *expiring) {
	if one.index > 0 {
		heap.Remove(e, one.index-1)
	}
}

// popExpired removes the keys that have expired at now, and calls ended for each.
func (e *expiryHeap) popExpired(now time.Time, ended func(*expiring)) {
	for len(*e) > 0 && (*e)[0].expiresAt <= now.UnixMicro() {
		first := (*e)[0]
		heap.Pop(e)
		ended(first)
	}
}

func (e expiryHeap) Len() int           { return len(e) }
func (e expiryHeap) Less(i, j int) bool { return e[i].expiresAt < e[j].expiresAt }
func (e expiryHeap) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i+1, j+1
}

func (e *expiryHeap) Push(x any) {
	if one, is := x.(*expiring); is {
		*e = append(*e, one)
		one.index = len(*e)
	}
}

func (e *expiryHeap) Pop() any {
	last := len(*e) - 1
	one := (*e)[last]
	(*e)[last], one.index = nil, 0
	*e = (*e)[:last]
	return one
}
