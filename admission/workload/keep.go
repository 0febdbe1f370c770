package workload

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
)

// keepPod takes in a pod that is new or changed, or is in a list.
func (c *Cache) keepPod(object metav1.Object, list uint32) {
	key, uid := c.hash(object.GetNamespace(), object.GetName()), c.hash(string(object.GetUID()))
	controller, ok := claim(pods, object)
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.pods[key]
	if known && before.uid != uid { // its deletion was missed
		c.remember(object.GetNamespace(), key, before)
		known = false
	}
	switch {
	case !ok && known:
		delete(c.pods, key)
		c.release(before.owner)
	case ok:
		o := c.owner(controller)
		o.pods++
		if known {
			c.release(before.owner)
		}
		c.pods[key] = pod{uid: uid, owner: o, list: max(list, before.list)}
	}
}

func (c *Cache) dropPod(object metav1.Object) {
	key := c.hash(object.GetNamespace(), object.GetName())
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, known := c.pods[key]; known {
		delete(c.pods, key)
		c.remember(object.GetNamespace(), key, p)
	}
}

// remember keeps a pod that is deleted for a while; c.mu is held.
func (c *Cache) remember(namespace string, key uint64, p pod) {
	if e := c.deleted.Get(tableKey(key)); e != nil {
		c.forget(e)
	}
	c.deleted.Set(c.deleted.Add(tableKey(key), namespace, deleted{p, c.now().Add(DeletedFor)}), 1, false)
	if e := c.deleted.Evict(0); e != nil {
		c.release(e.Value.owner)
	}
}

// forget ends what is known of a deleted pod; c.mu is held.
func (c *Cache) forget(e *store.Entry[deleted]) {
	c.deleted.Remove(e)
	c.release(e.Value.owner)
}

// sweep forgets pods that were deleted long ago.
func (c *Cache) sweep() {
	now := c.now()
	var over []store.Key
	c.mu.RLock() // the longer part, beside which workloads can be looked up
	for key, e := range c.deleted.All() {
		if now.After(e.Value.until) {
			over = append(over, key)
		}
	}
	c.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range over {
		if e := c.deleted.Get(key); e != nil && now.After(e.Value.until) {
			c.forget(e)
		}
	}
}

// podsListed ends what is known of pods that a list does not have. A namespace of theirs is not known any more, so they are
// remembered together.
func (c *Cache) podsListed(list uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, p := range c.pods {
		if p.list < list {
			delete(c.pods, key)
			c.remember("", key, p)
		}
	}
}

// keepOwner takes in a ReplicaSet or Job.
func (c *Cache) keepOwner(kind string, object metav1.Object, list uint32) {
	self := identity(kind, object)
	workload, ok := claim(kind, object)
	if metav1.GetControllerOfNoCopy(object) == nil {
		workload, ok = self, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.owner(self)
	o.workload = unique.Handle[store.Object]{}
	if ok {
		o.workload = unique.Make(workload)
	}
	o.seen, o.exists, o.list = true, true, max(list, o.list)
}

func (c *Cache) dropOwner(kind string, object metav1.Object) {
	self := identity(kind, object)
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.owners[c.ownerKey(&self)]; o != nil {
		c.gone(o)
	}
}

// ownersListed ends what is known of those of a kind that a list does not have.
func (c *Cache) ownersListed(kind string, list uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.owners {
		if o.kind == kind && o.exists && o.list < list {
			c.gone(o)
		}
	}
}

// gone notes that an owner is deleted. What is known of it stays while pods name it; c.mu is held.
func (c *Cache) gone(o *owner) {
	o.exists = false
	c.drop(o)
}

// release notes that a pod does not name an owner any more; c.mu is held.
func (c *Cache) release(o *owner) {
	o.pods--
	c.drop(o)
}

func (c *Cache) drop(o *owner) {
	if o.pods == 0 && !o.exists {
		delete(c.owners, o.key)
	}
}

// owner finds or makes that of an object, whose workload is itself until more is known; c.mu is held.
func (c *Cache) owner(object store.Object) *owner {
	key := c.ownerKey(&object)
	o := c.owners[key]
	if o == nil {
		o = &owner{key: key, workload: unique.Make(object)}
		if object.Kind == replicaSets || object.Kind == jobs {
			o.kind = object.Kind
		}
		c.owners[key] = o
	}
	return o
}

func (c *Cache) ownerKey(o *store.Object) uint64 {
	return c.hash(o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID)
}

// identity is an object of a kind as pods name it.
func identity(kind string, o metav1.Object) store.Object {
	return store.Object{
		APIVersion: native[kind] + "/v1", Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
	}
}
