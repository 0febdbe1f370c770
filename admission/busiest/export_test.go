package busiest

import "context"

// Bounds that tests are about.
const (
	MaxPart = maxPart
	Life    = life

	RulePlaces   = rulePlaces
	SourcePlaces = sourcePlaces
	MaxUnpacked  = maxUnpacked
)

// Put shares a Snapshot of any replica.
func (r *Replicas) Put(ctx context.Context, s Snapshot) error { return r.put(ctx, s) }
