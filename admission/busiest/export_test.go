package busiest

import (
	"context"
	"fmt"
)

// Bounds that tests are about.
const (
	MaxPart = maxPart
	Life    = life

	RulePlaces   = rulePlaces
	SourcePlaces = sourcePlaces
	DetailPlaces = detailPlaces
	MaxUnpacked  = maxUnpacked
)

// Put shares a Snapshot of any replica.
func (r *Replicas) Put(ctx context.Context, s Snapshot) error { return r.put(ctx, s) }

// Check holds that no row is lighter than its namespace knows: a search for the lightest would end before it.
func (c *Counter) Check() error {
	for by, s := range c.by {
		for _, r := range s.rows {
			if r.weight < r.holder.least {
				return fmt.Errorf("by %s: %v weighs %d, and none of %s is to weigh less than %d", by, r.key, r.weight, r.holder.namespace, r.holder.least)
			}
		}
	}
	return nil
}

// AddWithin adds up what several replicas have counted.
func AddWithin(all []Snapshot) Within { return addWithin(all) }
