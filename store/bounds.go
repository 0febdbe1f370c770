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
	// MaxNodes is the largest cluster that Kubernetes supports. In ClusterNamespace and SystemNamespace there may be NodePlaces more
	// buckets, and registers, for each of so many nodes.
	MaxNodes   = 5000
	NodePlaces = 4
	// ClusterNamespace has Events about nodes, and SystemNamespace those about pods on each node.
	ClusterNamespace = "default"
	SystemNamespace  = "kube-system"
)

// Bounds are the bounds of a store. The zero value is those by default.
type Bounds struct {
	// Buckets and Registers are for each namespace, and Cluster is how many more of each ClusterNamespace and SystemNamespace may
	// have.
	Buckets, Registers, Cluster int
}

// BucketsOf is how many buckets a namespace may have.
func (b Bounds) BucketsOf(namespace string) int { return b.or().Buckets + b.more(namespace) }

// RegistersOf is how many registers a namespace may have.
func (b Bounds) RegistersOf(namespace string) int { return b.or().Registers + b.more(namespace) }

func (b Bounds) or() Bounds {
	if b == (Bounds{}) {
		return Bounds{MaxBuckets, MaxRegisters, MaxNodes * NodePlaces}
	}
	return b
}

func (b Bounds) more(namespace string) int {
	if namespace != ClusterNamespace && namespace != SystemNamespace {
		return 0
	}
	return b.or().Cluster
}

// OverflowSuffix is what the name of an overflow bucket has after that of its limit. No limit's name ends so.
const OverflowSuffix = " (overflow)"

// Overflow is the bucket that all those of a limit share in a namespace that has as many as it may. It is not counted, and
// a notice about what it refuses is about the namespace.
func (b *Bucket) Overflow(namespace string) Bucket {
	o := *b
	o.Key, o.Of = KeyOf("overflow", b.Of, namespace), ""
	o.Name += OverflowSuffix
	o.About = Object{APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace}
	return o
}

// Overflow puts overflow buckets in the place of quotas of which fits says that there is no place for them, into a copy. It returns
// the first of these quotas; nil for none.
func (l *Limits) Overflow(namespace string, fits func(*Bucket) bool) (first *Bucket) {
	for i := range l.Quotas {
		b := &l.Quotas[i]
		if b.Of == "" || fits(b) {
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

// Unrecorded makes l the limits of a write whose register has no place: nothing is merged, and the spam filter is the bucket
// that all such writes of its policy share in the namespace.
func (l *Limits) Unrecorded(w *Write) {
	quotas := make([]Bucket, 0, 1+len(l.Quotas))
	if !l.Spam.Key.IsZero() && (w.Update == nil || w.Update.Recorder) {
		quotas = append(quotas, l.Spam.Overflow(w.Namespace))
	}
	l.Quotas, l.Spam, l.Merge = append(quotas, l.Quotas...), Bucket{}, false
}

// Places are what exists of each namespace, up to a bound, and until when. What has ended frees its place. It is for one
// goroutine at a time.
type Places struct {
	of         func(namespace string) int
	namespaces map[string]*places
}

// NewPlaces makes Places of which a namespace has as many as of says.
func NewPlaces(of func(namespace string) int) *Places {
	return &Places{of: of, namespaces: map[string]*places{}}
}

// Free reports whether a key has a place at now, or can have one.
func (p *Places) Free(now time.Time, namespace string, key Key) bool {
	in := p.namespaces[namespace]
	if in == nil {
		return p.of(namespace) > 0
	}
	in.ends.pass(now, func(one *place) { delete(in.all, one.key) })
	return in.all[key] != nil || len(in.ends) < p.of(namespace)
}

// Keep says until when what a key names exists. It is for the caller to ask whether there is a place.
func (p *Places) Keep(namespace string, key Key, until time.Time) {
	in := p.namespaces[namespace]
	if in == nil {
		in = &places{all: map[Key]*place{}}
		p.namespaces[strings.Clone(namespace)] = in
	}
	one := in.all[key]
	if one == nil {
		one = &place{key: key}
		in.all[key] = one
	}
	in.ends.set(one, until)
}

// Leave frees the place of a key, if it has one.
func (p *Places) Leave(namespace string, key Key) {
	in := p.namespaces[namespace]
	if in == nil {
		return
	}
	if one := in.all[key]; one != nil {
		in.ends.remove(one)
		delete(in.all, key)
	}
	if len(in.all) == 0 {
		delete(p.namespaces, namespace)
	}
}

// places are those of one namespace.
type places struct {
	all  map[Key]*place
	ends ends
}

// place is one thing that exists until a time.
type place struct {
	key   Key
	until int64 // in microseconds of Unix time
	at    int   // in its ends, from 1; 0 for not there
}

// ends is a heap of places: what ends first comes first.
type ends []*place

// set says until when one exists.
func (e *ends) set(one *place, until time.Time) {
	one.until = until.UnixMicro()
	if one.at == 0 {
		heap.Push(e, one)
	}
	heap.Fix(e, one.at-1)
}

func (e *ends) remove(one *place) {
	if one.at > 0 {
		heap.Remove(e, one.at-1)
	}
}

// pass removes what has ended at now, and calls ended for each.
func (e *ends) pass(now time.Time, ended func(*place)) {
	for len(*e) > 0 && (*e)[0].until <= now.UnixMicro() {
		first := (*e)[0]
		heap.Pop(e)
		ended(first)
	}
}

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].until < e[j].until }
func (e ends) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].at, e[j].at = i+1, j+1
}

func (e *ends) Push(x any) {
	if one, is := x.(*place); is {
		*e = append(*e, one)
		one.at = len(*e)
	}
}

func (e *ends) Pop() any {
	last := len(*e) - 1
	one := (*e)[last]
	(*e)[last], one.at = nil, 0
	*e = (*e)[:last]
	return one
}
