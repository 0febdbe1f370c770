package workload

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
)

// upsertPod takes in a pod that is new or changed, or is in a list.
func (c *Cache) upsertPod(object metav1.Object, list uint32) {
	key, uid := c.hash(object.GetNamespace(), object.GetName()), c.hash(string(object.GetUID()))
	controller, ok := controllerOf(podKind, object)
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.pods[key]
	if known && before.uid != uid { // its deletion was missed
		c.retainDeleted(object.GetNamespace(), key, before)
		known = false
	}
	switch {
	case !ok && known:
		delete(c.pods, key)
		c.releaseOwner(before.owner)
	case ok:
		o := c.findOrAddOwner(controller)
		o.pods++
		if known {
			c.releaseOwner(before.owner)
		}
		c.pods[key] = pod{uid: uid, owner: o, list: max(list, before.list)}
	}
}

func (c *Cache) deletePod(object metav1.Object) {
	key := c.hash(object.GetNamespace(), object.GetName())
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, known := c.pods[key]; known {
		delete(c.pods, key)
		c.retainDeleted(object.GetNamespace(), key, p)
	}
}

// retainDeleted keeps a pod that is deleted for a while; c.mu is held.
func (c *Cache) retainDeleted(namespace string, key uint64, p pod) {
	if e := c.deleted.Get(lruKey(key)); e != nil {
		c.evictDeleted(e)
	}
	c.deleted.Update(c.deleted.Add(lruKey(key), namespace, deletedPod{p, c.now().Add(DeletedPodTTL)}), 1, false)
	if e := c.deleted.Evict(0); e != nil {
		c.releaseOwner(e.Value.owner)
	}
}

// evictDeleted ends what is known of a deleted pod; c.mu is held.
func (c *Cache) evictDeleted(e *store.Entry[deletedPod]) {
	c.deleted.Remove(e)
	c.releaseOwner(e.Value.owner)
}

// sweep forgets pods that were deleted long ago.
func (c *Cache) sweep() {
	now := c.now()
	var over []store.Key
	c.mu.RLock() // the longer part, beside which workloads can be looked up
	for key, e := range c.deleted.All() {
		if now.After(e.Value.expires) {
			over = append(over, key)
		}
	}
	c.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range over {
		if e := c.deleted.Get(key); e != nil && now.After(e.Value.expires) {
			c.evictDeleted(e)
		}
	}
}

// finishPodList ends what is known of pods that a list does not have. A namespace of theirs is not known any more, so they are
// remembered together.
func (c *Cache) finishPodList(list uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, p := range c.pods {
		if p.list < list {
			delete(c.pods, key)
			c.retainDeleted("", key, p)
		}
	}
}

// upsertOwner takes in a ReplicaSet or Job.
func (c *Cache) upsertOwner(kind string, object metav1.Object, list uint32) {
	self := objectOf(kind, object)
	workload, ok := controllerOf(kind, object)
	if metav1.GetControllerOfNoCopy(object) == nil {
		workload, ok = self, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.findOrAddOwner(self)
	o.workload = unique.Handle[store.Object]{}
	if ok {
		o.workload = unique.Make(workload)
	}
	o.observed, o.exists, o.list = true, true, max(list, o.list)
}

func (c *Cache) deleteOwner(kind string, object metav1.Object) {
	self := objectOf(kind, object)
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.owners[c.ownerKey(&self)]; o != nil {
		c.markOwnerDeleted(o)
	}
}

// finishOwnerList ends what is known of those of a kind that a list does not have.
func (c *Cache) finishOwnerList(kind string, list uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.owners {
		if o.kind == kind && o.exists && o.list < list {
			c.markOwnerDeleted(o)
		}
	}
}

// markOwnerDeleted notes that an owner is deleted. What is known of it stays while pods name it; c.mu is held.
func (c *Cache) markOwnerDeleted(o *owner) {
	o.exists = false
	c.removeOwner(o)
}

// releaseOwner notes that a pod does not name an owner any more; c.mu is held.
func (c *Cache) releaseOwner(o *owner) {
	o.pods--
	c.removeOwner(o)
}

func (c *Cache) removeOwner(o *owner) {
	if o.pods == 0 && !o.exists {
		delete(c.owners, o.key)
	}
}

// findOrAddOwner finds or makes that of an object, whose workload is itself until more is known; c.mu is held.
func (c *Cache) findOrAddOwner(object store.Object) *owner {
	key := c.ownerKey(&object)
	o := c.owners[key]
	if o == nil {
		o = &owner{key: key, workload: unique.Make(object)}
		if object.Kind == replicaSetKind || object.Kind == jobKind {
			o.kind = object.Kind
		}
		c.owners[key] = o
	}
	return o
}

func (c *Cache) ownerKey(o *store.Object) uint64 {
	return c.hash(o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID)
}

// objectOf is an object of a kind as pods name it.
func objectOf(kind string, o metav1.Object) store.Object {
	return store.Object{
		APIVersion: nativeKinds[kind] + "/v1", Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
	}
}
