package redis

import (
	"github.com/eventquota/eventquota/store"
)

// Source returns the script, for tests that run it on their own clock.
func Source() string { return source }

// GroupKey returns the key of a register.
func (s *Store) GroupKey(group store.Key) string { return s.groupKey(group) }

// IndexKey returns the key of the index.
func (s *Store) IndexKey() string { return s.index }

// RegistersKey returns the key of the set that counts the registers of a namespace.
func (s *Store) RegistersKey(namespace string) string { return s.registersKey(namespace) }

// BucketsKey returns the key of the set that counts the buckets of a namespace.
func (s *Store) BucketsKey(namespace string) string { return s.bucketsKey(namespace) }

// IndexPerClaim is how many index entries a claim reads at most, and RegistersPerRead how many registers one script reads.
const IndexPerClaim, RegistersPerRead = indexPage * indexPages, registersPerRead

// QuotaKey returns the key of a quota.
func (s *Store) QuotaKey(quota store.Key) string { return s.quotaKey(quota) }

// SetCacheBytes bounds the cached registers and the backlog of a replica, in bytes.
func (s *Store) SetCacheBytes(copies, backlog int64) *Store {
	s.cache, s.backlog = newRegisterCache(copies), newBacklog(backlog)
	return s
}

// SpillExcess does what Run does after each flush.
func (s *Store) SpillExcess() { s.spillExcess() }

// Waiting returns the number of registers with a backlog, which Run passes to Options.OnBacklog.
func (s *Store) Waiting() int { return len(s.backlog.waitingSince(s.opts.Now())) }

// Idle reports whether no attempt is under way.
func (s *Store) Idle() bool { return s.cache.inUse() == 0 }
