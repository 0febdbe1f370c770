package busiest

import (
	"context"
	"fmt"
)

// Bounds that tests are about.
const (
	MaxNameBytes = maxNameBytes
	SnapshotTTL  = snapshotTTL

	MaxTrackedRules   = maxTrackedRules
	MaxTrackedSources = maxTrackedSources
	MaxTrackedDetails = maxTrackedDetails
	MaxSnapshotBytes  = maxSnapshotBytes
)

// Publish shares a Snapshot of any replica.
func (r *Replicas) Publish(ctx context.Context, s Snapshot) error { return r.publish(ctx, s) }

// CheckWeights holds that no row is lighter than its namespace knows: a search for the lightest would end before it.
func (c *Counter) CheckWeights() error {
	for by, s := range c.by {
		for _, r := range s.rows {
			if r.weight < r.share.minWeight {
				return fmt.Errorf("by %s: %v weighs %d, and none of %s is to weigh less than %d", by, r.key, r.weight, r.share.namespace, r.share.minWeight)
			}
		}
	}
	return nil
}

// SumBreakdowns adds up what several replicas have counted.
func SumBreakdowns(all []Snapshot) Breakdown { return sumBreakdowns(all) }
