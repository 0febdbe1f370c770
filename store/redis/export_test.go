package redis

import (
	"github.com/eventquota/eventquota/store"
)

// Source is the script, for tests that run it on a clock of theirs.
func Source() string { return source }

// GroupKey is the key of a register, QuotaKey that of a quota.
func (s *Store) GroupKey(group store.Key) string { return s.groupKey(group) }

// IndexKey is the key of the index.
func (s *Store) IndexKey() string { return s.index }

// RegistersKey and BucketsKey are the keys of what is counted for a namespace.
func (s *Store) RegistersKey(namespace string) string { return s.registersKey(namespace) }

// BucketsKey is that of the buckets.
func (s *Store) BucketsKey(namespace string) string { return s.bucketsKey(namespace) }

// IndexPerClaim is how much of the index a claim looks at, and RegistersPerRead how many registers one script reads.
const IndexPerClaim, RegistersPerRead = indexPage * indexPages, registersPerRead

// QuotaKey is the key of a quota.
func (s *Store) QuotaKey(quota store.Key) string { return s.quotaKey(quota) }

// SetCacheBytes bounds the copies and the backlog of a replica, in bytes.
func (s *Store) SetCacheBytes(copies, backlog int64) *Store {
	s.cache, s.backlog = newRegisterCache(copies), newBacklog(backlog)
	return s
}

// SpillExcess spills what Run does.
func (s *Store) SpillExcess() { s.spillExcess() }

// Waiting is what Run tells Options.OnBacklog.
func (s *Store) Waiting() int { return len(s.backlog.waitingSince(s.opts.Now())) }

// Idle reports whether no attempt is under way.
func (s *Store) Idle() bool { return s.cache.inUse() == 0 }
