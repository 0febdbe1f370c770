package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Sweep removes expired deleted pods, as Run does every minute.
func (c *Cache) Sweep() { c.sweep() }

// Sizes returns the number of pods, deleted pods and owners in the Cache.
func (c *Cache) Sizes() (pods, deleted, owners int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.pods), c.deleted.Len(), len(c.owners)
}

// UpsertPod adds or updates a pod.
func (c *Cache) UpsertPod(o metav1.Object) { c.upsertPod(o, 0) }

// DeletePod records the deletion of a pod.
func (c *Cache) DeletePod(o metav1.Object) { c.deletePod(o) }

// UpsertReplicaSet adds or updates a ReplicaSet.
func (c *Cache) UpsertReplicaSet(o metav1.Object) { c.upsertOwner(replicaSetKind, o, 0) }
