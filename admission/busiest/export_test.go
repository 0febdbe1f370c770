package busiest

import (
	"context"
	"fmt"
)

// Bounds that tests need.
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

// CheckWeights checks that no row is lighter than minWeight of its namespace: a search for the lightest row would miss it.
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
