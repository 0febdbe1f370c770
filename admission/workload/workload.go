// Package workload finds the workload that a pod belongs to: its Deployment, StatefulSet, DaemonSet, Job, CronJob or other
// controller.
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
	// DeletedPodTTL is the time for which the workload of a deleted pod stays known: Events about the pod still arrive.
	DeletedPodTTL = 10 * time.Minute
	// MaxDeletedPods bounds the deleted pods in the Cache. Beyond it, the oldest one of the namespace with the most is evicted,
	// so no namespace displaces the pods of others.
	MaxDeletedPods = 65536
	// sweepInterval is the interval at which expired pods are removed.
	sweepInterval = time.Minute
)

// Sources are the sources of the metadata that a Cache reads.
type Sources struct{ Pods, ReplicaSets, Jobs feed.Source }

// NewSources returns the Sources of a cluster.
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

// Cache has the workloads of the pods of a cluster. For each object it keeps hashes of its name and uid, and a reference to
// its controller. It keeps nothing for a pod without a controller. Its methods are safe for concurrent use.
//
// A pod may name any controller, because the API server does not check owner references. So the workload is a claim of the
// pod's creator, within the pod's own namespace. It is a Deployment only through a ReplicaSet that the Cache has observed
// with that uid, and a CronJob only through such a Job.
type Cache struct {
	sources Sources
	now     func() time.Time
	seed    maphash.Seed

	mu      sync.RWMutex // guards the fields below
	pods    map[uint64]pod
	owners  map[uint64]*owner
	deleted *store.FairLRU[deletedPod] // by the same hash as pods
	lists   uint32                     // the number of the latest list
}

// pod is the entry of one pod.
type pod struct {
	uid   uint64 // a hash
	owner *owner
	list  uint32 // the number of the last list that had it
}

// deletedPod is the entry of a deleted pod.
type deletedPod struct {
	pod

	expires time.Time
}

// owner is a controller that pods name, or a ReplicaSet or Job.
type owner struct {
	key uint64
	// workload is the owner's controller, or the owner itself if it has none. It is the zero value if that is unknown.
	workload unique.Handle[store.Object]
	// kind is set only for a ReplicaSet or Job. These count as controllers of pods only once they were observed.
	kind             string
	observed, exists bool
	list             uint32 // as in pod
	pods             int    // the number of pods that refer to it
}

// New returns an empty Cache. Run fills it.
func New(s Sources, now func() time.Time) *Cache {
	c := &Cache{
		sources: s, now: now, seed: maphash.MakeSeed(), pods: map[uint64]pod{}, owners: map[uint64]*owner{},
		deleted: store.NewFairLRU[deletedPod](MaxDeletedPods),
	}
	return c
}

// FindName returns the kind and name of the workload that an object belongs to, as Find does.
func (c *Cache) FindName(namespace, kind, name, uid string) (workloadKind, workloadName string, known bool) {
	o, known := c.Find(namespace, kind, name, uid)
	return o.Kind, o.Name, known
}

// Find returns the workload that an object belongs to, in the same namespace, and whether it is known. It knows workloads of
// pods only. If uid is empty, it looks up the pod that has the name, or had it last. A nil Cache finds nothing.
func (c *Cache) Find(namespace, kind, name, uid string) (workload store.Object, known bool) {
	if c == nil || kind != podKind {
		return store.Object{}, false
	}
	key, uidHash := c.hash(namespace, name), c.hash(uid)
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, found := c.pods[key]
	if !found || uid != "" && p.uid != uidHash {
		e := c.deleted.Get(lruKey(key))
		if e == nil || uid != "" && e.Value.uid != uidHash || c.now().After(e.Value.expires) {
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

// Run keeps c up to date until ctx ends. While the API server is unavailable or refuses requests, it retries, and c keeps its
// entries.
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
		upsert := func(o metav1.Object, list uint32) { c.upsertOwner(kind, o, list) }
		f.OnList = func() feed.Listing {
			return &listing{c, c.beginList(), upsert, func(list uint32) { c.finishOwnerList(kind, list) }}
		}
		f.OnUpdate, f.OnDelete = func(o metav1.Object) { upsert(o, 0) }, func(o metav1.Object) { c.deleteOwner(kind, o) }
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

// hash returns a short key of strings and their lengths. Its seed is secret, so no client can search for collisions.
func (c *Cache) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	var length [binary.MaxVarintLen64]byte
	for _, part := range parts {
		_, _ = h.Write(binary.AppendUvarint(length[:0], uint64(len(part)))) // neither write can fail
		_, _ = h.WriteString(part)
	}
	return h.Sum64()
}

func lruKey(key uint64) (k store.Key) {
	binary.BigEndian.PutUint64(k[:], key)
	return k
}

// listing adds the objects of a list to the Cache one by one, before the list is complete.
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

// beginList returns the number of a new list.
func (c *Cache) beginList() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return c.lists
}
