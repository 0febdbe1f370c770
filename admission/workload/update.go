package workload

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
)

// upsertPod adds or updates a pod. list is the number of the list that has it, or 0 if it comes from the watch.
func (c *Cache) upsertPod(object metav1.Object, list uint32) {
	key, uid := c.hash(object.GetNamespace(), object.GetName()), c.hash(string(object.GetUID()))
	controller, ok := controllerOf(podKind, object)
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.pods[key]
	if known && before.uid != uid { // its deletion was missed
		delete(c.pods, key)
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

// retainDeleted keeps a deleted pod for DeletedPodTTL. c.mu is held.
func (c *Cache) retainDeleted(namespace string, key uint64, p pod) {
	if e := c.deleted.Get(lruKey(key)); e != nil {
		c.evictDeleted(e)
	}
	c.deleted.Update(c.deleted.Add(lruKey(key), namespace, deletedPod{p, c.now().Add(DeletedPodTTL)}), 1, false)
	if e := c.deleted.Evict(0); e != nil {
		c.releaseOwner(e.Value.owner)
	}
}

// evictDeleted removes a deleted pod. c.mu is held.
func (c *Cache) evictDeleted(e *store.Entry[deletedPod]) {
	c.deleted.Remove(e)
	c.releaseOwner(e.Value.owner)
}

// sweep removes deleted pods that have expired.
func (c *Cache) sweep() {
	now := c.now()
	var expired []store.Key
	c.mu.RLock() // the search takes longest, and must not block lookups
	for key, e := range c.deleted.All() {
		if now.After(e.Value.expires) {
			expired = append(expired, key)
		}
	}
	c.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range expired {
		if e := c.deleted.Get(key); e != nil && now.After(e.Value.expires) {
			c.evictDeleted(e)
		}
	}
}

// finishPodList treats pods that a complete list does not have as deleted. The Cache does not know their namespaces, so they
// share the empty one in the LRU of deleted pods.
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

// upsertOwner adds or updates a ReplicaSet or Job. list is as in upsertPod.
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

// finishOwnerList treats owners of a kind that a complete list does not have as deleted.
func (c *Cache) finishOwnerList(kind string, list uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.owners {
		if o.kind == kind && o.exists && o.list < list {
			c.markOwnerDeleted(o)
		}
	}
}

// markOwnerDeleted records that an owner is deleted. It stays in the Cache while pods refer to it. c.mu is held.
func (c *Cache) markOwnerDeleted(o *owner) {
	o.exists = false
	c.removeOwner(o)
}

// releaseOwner records that one pod less refers to an owner. c.mu is held.
func (c *Cache) releaseOwner(o *owner) {
	o.pods--
	c.removeOwner(o)
}

func (c *Cache) removeOwner(o *owner) {
	if o.pods == 0 && !o.exists {
		delete(c.owners, o.key)
	}
}

// findOrAddOwner returns the owner that represents object, and adds it if it is new. The workload of a new owner is the object itself
// until more is known. c.mu is held.
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

// objectOf returns an object in the form in which pods refer to it.
func objectOf(kind string, o metav1.Object) store.Object {
	return store.Object{
		APIVersion: nativeKinds[kind] + "/v1", Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
	}
}
