// Package workload knows which workload a pod belongs to: the Deployment, StatefulSet, DaemonSet, Job, CronJob or other
// controller behind it.
package workload

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
	"unique"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/watch/feed"
	"github.com/eventquota/eventquota/store"
)

const (
	// DeletedPodTTL is how long the workload of a deleted pod stays known: Events about it still come.
	DeletedPodTTL = 10 * time.Minute
	// MaxDeletedPods is of how many deleted pods that is. Beyond, the pod goes that was deleted first, of the namespace that has most
	// of them, so none takes another's.
	MaxDeletedPods = 65536
	// sweepInterval is how often deleted pods are looked through for those to forget.
	sweepInterval = time.Minute
)

// Sources are those of the metadata that a Cache reads.
type Sources struct{ Pods, ReplicaSets, Jobs feed.Source }

// NewSources are Sources of a cluster.
func NewSources(config *rest.Config) (s Sources, err error) {
	if s.Pods, err = feed.Metadata(config, corev1.SchemeGroupVersion.WithResource("pods")); err != nil {
		return s, err
	}
	if s.ReplicaSets, err = feed.Metadata(config, appsv1.SchemeGroupVersion.WithResource("replicasets")); err != nil {
		return s, err
	}
	s.Jobs, err = feed.Metadata(config, batchv1.SchemeGroupVersion.WithResource("jobs"))
	return s, err
}

// Cache knows the workloads of the pods of a cluster. Of an object it keeps a hash of its name and uid, and a reference to its
// controller; of a pod without one nothing. Its methods are safe for concurrent use.
//
// A pod may name any controller, as the API server checks no owner reference, so a workload is what whoever created the pod
// says, within the pod's own namespace. It is a Deployment only by way of a ReplicaSet that was seen with that uid, and a
// CronJob by way of such a Job.
type Cache struct {
	sources Sources
	now     func() time.Time
	seed    maphash.Seed

	mu      sync.RWMutex // guards what follows
	pods    map[uint64]pod
	owners  map[uint64]*owner
	deleted *store.FairLRU[deletedPod] // pods, by the same hash
	lists   uint32                     // how many lists were begun
}

// pod is what is kept of one.
type pod struct {
	uid   uint64 // a hash
	owner *owner
	list  uint32 // in which it was last, or at least was since
}

// deletedPod is a pod that is no more.
type deletedPod struct {
	pod

	expires time.Time
}

// owner is a controller that pods name, or a ReplicaSet or Job.
type owner struct {
	key uint64
	// workload is what controls it, or itself; the zero value where that is unknown.
	workload unique.Handle[store.Object]
	// kind is that of a ReplicaSet or Job, which controls pods only once it was seen; empty for any other.
	kind             string
	observed, exists bool
	list             uint32 // as that of a pod
	pods             int    // that name it
}

// New makes a Cache that knows nothing until Run.
func New(s Sources, now func() time.Time) *Cache {
	c := &Cache{
		sources: s, now: now, seed: maphash.MakeSeed(), pods: map[uint64]pod{}, owners: map[uint64]*owner{},
		deleted: store.NewFairLRU[deletedPod](MaxDeletedPods),
	}
	return c
}

// FindName says which workload an object belongs to, by its kind and name in the namespace of the object. The uid may be empty; then
// it is the pod that has the name, or had it last. Only of pods a workload is ever known. A nil Cache knows none.
func (c *Cache) FindName(namespace, kind, name, uid string) (workloadKind, workloadName string, known bool) {
	o, known := c.Find(namespace, kind, name, uid)
	return o.Kind, o.Name, known
}

// Find is Of with all that names the workload.
func (c *Cache) Find(namespace, kind, name, uid string) (workload store.Object, known bool) {
	if c == nil || kind != podKind {
		return store.Object{}, false
	}
	key, hashed := c.hash(namespace, name), c.hash(uid)
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, found := c.pods[key]
	if !found || uid != "" && p.uid != hashed {
		e := c.deleted.Get(lruKey(key))
		if e == nil || uid != "" && e.Value.uid != hashed || c.now().After(e.Value.expires) {
			return store.Object{}, false
		}
		p = e.Value.pod
	}
	o := p.owner
	if o.workload == (unique.Handle[store.Object]{}) || o.kind != "" && !o.observed {
		return store.Object{}, false
	}
	return o.workload.Value(), true
}

// Run keeps c up to date until ctx ends. While the API server is unavailable, or refuses, it tries again, and what is known
// stays.
func (c *Cache) Run(ctx context.Context) {
	ctx = logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithName("workloads"))
	var running sync.WaitGroup
	defer running.Wait()
	f := feed.New("pods", c.sources.Pods)
	f.OnList = func() feed.Listing { return &listing{c, c.beginList(), c.upsertPod, c.finishPodList} }
	f.OnUpdate, f.OnDelete = func(o metav1.Object) { c.upsertPod(o, 0) }, c.deletePod
	running.Go(func() { f.Run(ctx) })
	for kind, source := range map[string]feed.Source{replicaSetKind: c.sources.ReplicaSets, jobKind: c.sources.Jobs} {
		f := feed.New(kind, source)
		keep := func(o metav1.Object, list uint32) { c.upsertOwner(kind, o, list) }
		f.OnList = func() feed.Listing {
			return &listing{c, c.beginList(), keep, func(list uint32) { c.finishOwnerList(kind, list) }}
		}
		f.OnUpdate, f.OnDelete = func(o metav1.Object) { keep(o, 0) }, func(o metav1.Object) { c.deleteOwner(kind, o) }
		running.Go(func() { f.Run(ctx) })
	}
	for tick := time.NewTicker(sweepInterval); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			c.sweep()
		}
	}
}

// hash is a short key of texts, with their lengths. Its seed is secret, so nobody can look for two texts of one key.
func (c *Cache) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	var length [binary.MaxVarintLen64]byte
	for _, part := range parts {
		_, _ = h.Write(binary.AppendUvarint(length[:0], uint64(len(part)))) // never fails, as the next
		_, _ = h.WriteString(part)
	}
	return h.Sum64()
}

func lruKey(key uint64) (k store.Key) {
	binary.BigEndian.PutUint64(k[:], key)
	return k
}

// listing takes in a list. What it says is true before it is complete.
type listing struct {
	cache  *Cache
	number uint32
	upsert func(object metav1.Object, list uint32)
	finish func(list uint32)
}

var _ feed.Listing = (*listing)(nil)

// Add implements feed.Listing.
func (l *listing) Add(object metav1.Object) { l.upsert(object, l.number) }

// Done implements feed.Listing.
func (l *listing) Done() { l.finish(l.number) }

// beginList numbers a list.
func (c *Cache) beginList() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return c.lists
}
