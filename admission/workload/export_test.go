package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Sweep forgets pods that were deleted long ago, as Run does once in a while.
func (c *Cache) Sweep() { c.sweep() }

// Held is of how many pods, deleted pods and controllers something is kept.
func (c *Cache) Held() (pods, deleted, owners int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.pods), c.deleted.Len(), len(c.owners)
}

// Keep takes in a pod, Delete its deletion, and KeepReplicaSet a ReplicaSet.
func (c *Cache) Keep(o metav1.Object) { c.keepPod(o, 0) }

// Delete is as Keep says.
func (c *Cache) Delete(o metav1.Object) { c.dropPod(o) }

// KeepReplicaSet is as Keep says.
func (c *Cache) KeepReplicaSet(o metav1.Object) { c.keepOwner(replicaSets, o, 0) }
