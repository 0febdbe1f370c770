package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// maxSources bounds the sources in a status, and maxTrackedSources those tracked between two writes of it.
	maxSources, maxTrackedSources = 5, 16
	// newReplicaAge is how long before the first collection of a term a replica may have started and still count as new. It had shared
	// no snapshot then: Redis keeps snapshots for five minutes.
	newReplicaAge = time.Minute
	// maxMissedCollections is how many collections a replica is remembered without a snapshot: an hour.
	maxMissedCollections = 360
	// overflowTTL is how long the Overflow condition stays after the last decision by an overflow bucket.
	overflowTTL = 10 * time.Minute
	// overflowMessage is the message of that condition, with a namespace.
	overflowMessage = "namespace %s has reached its bound of token buckets, or of sources and objects with state: further ones share one overflow bucket"
)

// ruleCounts counts the decisions of all replicas by one generation of a rule.
type ruleCounts struct {
	since time.Time
	total busiest.Counts
	// sources are those refused since the last write of the status.
	sources []busiest.SourceCounts
	// failure has an example of an Event on which the rule could not be evaluated; empty for none.
	failure string
	// overflow names a namespace for which an overflow bucket decides, and lastOverflow is when one last did.
	overflow     string
	lastOverflow time.Time
}

// newRuleCounts continues from the stored status of a rule if that counts the generation in force.
func newRuleCounts(r *ruleState, now time.Time) *ruleCounts {
	c := &ruleCounts{since: now}
	if !continuesCounts(&r.stored, &r.report) {
		return c
	}
	stored := r.stored.Total
	c.total = busiest.Counts{Admitted: stored.Admitted, Merged: stored.Merged, Dropped: stored.Dropped}
	if stored.Since != nil {
		c.since = stored.Since.Time
	}
	if failed := meta.FindStatusCondition(r.stored.Conditions, v1alpha1.ConditionErrors); failed != nil {
		c.failure = failed.Message
	}
	if overflow := meta.FindStatusCondition(r.stored.Conditions, v1alpha1.ConditionOverflow); overflow != nil {
		c.overflow, c.lastOverflow = overflow.Message, now
	}
	return c
}

// replicaCounts holds the counts in a replica's last snapshot.
type replicaCounts struct {
	missedCollections int // since that snapshot
	rules             map[busiest.RuleID]busiest.RuleCounts
}

// collectCounts adds what each replica has counted since its previous snapshot. Counts from before the first collection of a term
// are taken to be in the stored statuses, or are lost, so that no leader counts anything twice.
func (w *Writer) collectCounts(ctx context.Context, now time.Time) error {
	snapshots, err := w.counts.Snapshots(ctx)
	if err != nil {
		return err
	}
	first := w.firstCollection.IsZero()
	if first {
		w.firstCollection = now
	}
	for name, replica := range w.replicas { // reset below if the replica has a snapshot
		replica.missedCollections++
		w.replicas[name] = replica
	}
	for _, snapshot := range snapshots {
		before, known := w.replicas[snapshot.Replica.Name]
		known = known || !first && snapshot.Replica.Since.After(w.firstCollection.Add(-newReplicaAge))
		seen := replicaCounts{rules: map[busiest.RuleID]busiest.RuleCounts{}}
		for _, counted := range snapshot.Rules {
			id, old := counted.ID, before.rules[counted.ID]
			r := w.records[types.UID(id.UID)]
			switch {
			case !known:
			case r != nil && r.counts != nil && r.report.ActiveGeneration == id.Generation:
				r.counts.add(now, &counted, &old)
				r.validUntil = time.Time{}
			default:
				counted = old // add it once this replica has the generation in force
			}
			seen.rules[id] = counted
		}
		w.replicas[snapshot.Replica.Name] = seen
	}
	maps.DeleteFunc(w.replicas, func(_ string, replica replicaCounts) bool { return replica.missedCollections > maxMissedCollections })
	return nil
}

// add adds what a replica has counted since its previous snapshot.
func (c *ruleCounts) add(now time.Time, counted, before *busiest.RuleCounts) {
	c.total = c.total.Add(counted.Since(before.Counts))
	if c.failure == "" && counted.Error != "" {
		c.failure = "evaluation failed for some Events, for example: " + counted.Error
	}
	if counted.Overflow != before.Overflow {
		c.overflow, c.lastOverflow = fmt.Sprintf(overflowMessage, counted.OverflowIn), now
	}
	for _, o := range counted.Sources {
		if i := sourceIndex(before.Sources, &o); i >= 0 {
			o.Counts = o.Since(before.Sources[i].Counts)
		}
		if i := sourceIndex(c.sources, &o); i >= 0 {
			c.sources[i].Counts = c.sources[i].Add(o.Counts)
		} else if o.Matched() > 0 {
			c.sources = append(c.sources, o)
		}
	}
	slices.SortStableFunc(c.sources, func(a, b busiest.SourceCounts) int { return cmp.Compare(b.Matched(), a.Matched()) })
	c.sources = c.sources[:min(maxTrackedSources, len(c.sources))]
}

func sourceIndex(all []busiest.SourceCounts, s *busiest.SourceCounts) int {
	return slices.IndexFunc(all, func(o busiest.SourceCounts) bool { return o.Source == s.Source && o.Object == s.Object })
}
