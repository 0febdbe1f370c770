package tally

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

// maxLedgers is how many IDs Memory knows at most. It forgets the one used
// longest ago.
const maxLedgers = 1 << 14

// memory is a Book of one process.
type memory struct {
	mu      sync.Mutex
	ledgers *lru.Cache // of *kept by ID
}

type kept struct {
	ledger
	until int64
}

var _ Book = (*memory)(nil)

// NewMemory makes a Book of one process. An ID to which nothing was added for
// three days is forgotten, and beyond 16384 IDs the one used longest ago.
func NewMemory() Book { return &memory{ledgers: lru.New(maxLedgers)} }

// Add implements Book.
func (m *memory) Add(_ context.Context, now time.Time, b Batch) error {
	at, from := clock(now), sender{senderOf(b.Replica), b.Seq}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range b.Entries {
		m.open(at, e.ID).add(at, from, packEntry(e))
	}
	return nil
}

// Read implements Book.
func (m *memory) Read(_ context.Context, now time.Time, ids []ID) (map[ID]Tally, error) {
	at, all := clock(now), make(map[ID]Tally, len(ids))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if k := m.find(at, id); k != nil {
			t, err := k.tally(at)
			if err != nil {
				return nil, err
			}
			all[id] = t
		}
	}
	return all, nil
}

// Restore implements Book.
func (m *memory) Restore(_ context.Context, now time.Time, id ID, since time.Time, total Counts) error {
	at := clock(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open(at, id).restore(clockSince(since), total.limited())
	return nil
}

func (m *memory) find(at int64, id ID) *kept {
	if x, ok := m.ledgers.Get(id); ok {
		if k := x.(*kept); at < k.until {
			return k
		}
	}
	return nil
}

// open finds or makes what is known of an ID, which lives on for a while.
func (m *memory) open(at int64, id ID) *kept {
	k := m.find(at, id)
	if k == nil {
		k = &kept{ledger: *newLedger(at)}
		m.ledgers.Add(id, k)
	}
	k.until = at + life.Microseconds()
	return k
}
