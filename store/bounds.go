package store

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// Bounds of what exists of one namespace in a store, by default.
const (
	// MaxBuckets bounds the token buckets that a namespace has beside those whose number the rules bound: what its Events
	// make of limits that are keyed by more than namespace and type. A bucket exists until it is full again.
	MaxBuckets = 4096
	// MaxRegisters bounds its registers, each of which is of one source, object and user, or has a notice.
	MaxRegisters = 16384
	// MaxNodes is the largest cluster that Kubernetes supports. In ClusterNamespace and SystemNamespace there may be ExtraPerNode more
	// buckets, and registers, for each of so many nodes.
	MaxNodes     = 5000
	ExtraPerNode = 4
	// ClusterNamespace has Events about nodes, and SystemNamespace those about pods on each node.
	ClusterNamespace = "default"
	SystemNamespace  = "kube-system"
)

// Bounds are the bounds of a store. The zero value is those by default.
type Bounds struct {
	// Buckets and Registers are for each namespace, and Cluster is how many more of each ClusterNamespace and SystemNamespace may
	// have.
	Buckets, Registers, SystemExtra int
}

// MaxBuckets is how many buckets a namespace may have.
func (b Bounds) MaxBuckets(namespace string) int {
	return b.withDefaults().Buckets + b.extra(namespace)
}

// MaxRegisters is how many registers a namespace may have.
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

// OverflowSuffix is what the name of an overflow bucket has after that of its limit. No limit's name ends so.
const OverflowSuffix = " (overflow)"

// Overflow is the bucket that all those of a limit share in a namespace that has as many as it may. It is not counted, and
// a notice about what it refuses is about the namespace.
func (b *Bucket) Overflow(namespace string) Bucket {
	o := *b
	o.Key, o.LimitID = KeyOf("overflow", b.LimitID, namespace), ""
	o.Name += OverflowSuffix
	o.NoticeObject = Object{APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace}
	return o
}

// UseOverflow puts overflow buckets in the place of quotas of which fits says that there is no place for them, into a copy. It returns
// the first of these quotas; nil for none.
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

// SetUntracked makes l the limits of a write whose register has no place: nothing is merged, and the spam filter is the bucket
// that all such writes of its policy share in the namespace.
func (l *Limits) SetUntracked(w *Write) {
	quotas := make([]Bucket, 0, 1+len(l.Quotas))
	if !l.SpamFilter.Key.IsZero() && (w.Update == nil || w.Update.ByRecorder) {
		quotas = append(quotas, l.SpamFilter.Overflow(w.Namespace))
	}
	l.Quotas, l.SpamFilter, l.Merge = append(quotas, l.Quotas...), Bucket{}, false
}

// BoundedSet are what exists of each namespace, up to a bound, and until when. What has ended frees its place. It is for one
// goroutine at a time.
type BoundedSet struct {
	limit      func(namespace string) int
	namespaces map[string]*boundedNamespace
}

// NewBoundedSet makes BoundedSet of which a namespace has as many as of says.
func NewBoundedSet(of func(namespace string) int) *BoundedSet {
	return &BoundedSet{limit: of, namespaces: map[string]*boundedNamespace{}}
}

// CanHold reports whether a key has a place at now, or can have one.
func (p *BoundedSet) CanHold(now time.Time, namespace string, key Key) bool {
	in := p.namespaces[namespace]
	if in == nil {
		return p.limit(namespace) > 0
	}
	in.expiries.popExpired(now, func(one *expiring) { delete(in.members, one.key) })
	return in.members[key] != nil || len(in.expiries) < p.limit(namespace)
}

// Put says until when what a key names exists. It is for the caller to ask whether there is a place.
func (p *BoundedSet) Put(namespace string, key Key, until time.Time) {
	in := p.namespaces[namespace]
	if in == nil {
		in = &boundedNamespace{members: map[Key]*expiring{}}
		p.namespaces[strings.Clone(namespace)] = in
	}
	one := in.members[key]
	if one == nil {
		one = &expiring{key: key}
		in.members[key] = one
	}
	in.expiries.set(one, until)
}

// Remove frees the place of a key, if it has one.
func (p *BoundedSet) Remove(namespace string, key Key) {
	in := p.namespaces[namespace]
	if in == nil {
		return
	}
	if one := in.members[key]; one != nil {
		in.expiries.remove(one)
		delete(in.members, key)
	}
	if len(in.members) == 0 {
		delete(p.namespaces, namespace)
	}
}

// boundedNamespace are those of one namespace.
type boundedNamespace struct {
	members  map[Key]*expiring
	expiries expiryHeap
}

// expiring is one thing that exists until a time.
type expiring struct {
	key       Key
	expiresAt int64 // in microseconds of Unix time
	index     int   // in its ends, from 1; 0 for not there
}

// expiryHeap is a heap of places: what ends first comes first.
type expiryHeap []*expiring

// set says until when one exists.
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

// popExpired removes what has ended at now, and calls ended for each.
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
