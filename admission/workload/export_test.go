package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Sweep forgets pods that were deleted long ago, as Run does once in a while.
func (c *Cache) Sweep() { c.sweep() }

// Sizes is of how many pods, deleted pods and controllers something is kept.
func (c *Cache) Sizes() (pods, deleted, owners int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.pods), c.deleted.Len(), len(c.owners)
}

// UpsertPod takes in a pod, Delete its deletion, and UpsertReplicaSet a ReplicaSet.
func (c *Cache) UpsertPod(o metav1.Object) { c.upsertPod(o, 0) }

// DeletePod is as Keep says.
func (c *Cache) DeletePod(o metav1.Object) { c.deletePod(o) }

// UpsertReplicaSet is as Keep says.
func (c *Cache) UpsertReplicaSet(o metav1.Object) { c.upsertOwner(replicaSetKind, o, 0) }
