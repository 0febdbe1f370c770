package redis

import (
	"github.com/eventquota/eventquota/store"
)

// Source is the script, for tests that run it on a clock of theirs.
func Source() string { return source }

// GroupKey is the key of a register, QuotaKey that of a quota.
func (s *Store) GroupKey(group store.Key) string { return s.groupKey(group) }

// IndexKey is the key of the index that a register is in.
func (s *Store) IndexKey(group store.Key) string { return s.dues[shard(group)] }

// Indexed is how much of an index one claim looks at.
const Indexed = indexed

// QuotaKey is the key of a quota.
func (s *Store) QuotaKey(quota store.Key) string { return s.quotaKey(quota) }

// Small bounds the copies, in bytes, and the reports of a replica.
func (s *Store) Small(bytes, reports int64) *Store {
	s.lines, s.log = newLines(bytes), newReports(reports)
	return s
}

// SpillExcess spills what Run does.
func (s *Store) SpillExcess() { s.spillExcess() }

// Waiting is what Run tells Options.Waiting.
func (s *Store) Waiting() int { return len(s.log.waiting(s.opts.Now())) }

// Idle reports whether no step is under way.
func (s *Store) Idle() bool { return len(s.lines.busy()) == 0 }
